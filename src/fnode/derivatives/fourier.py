"""The paper's Fourier pipeline, step by step, as its equations and its released code have it.

Kept faithfully, and not recommended: a trajectory that does not repeat is no sum of whole waves, and on the paper's own
clean data these labels are far from the truth. `auto` is better in every case measured.
"""

import dataclasses
from typing import ClassVar

import numpy as np

from fnode.derivatives._base import AbstractDerivative, Derivative
from fnode.errors import InputError


@dataclasses.dataclass(frozen=True)
class Fourier(AbstractDerivative):
    """Detrend, mirror, window, differentiate as a sum of waves under a Gaussian low-pass, crop, add the trend back.

    `mirror` is the reflected share of the record on each side, `window` the tapered share of the extended record,
    `cutoff_share` the width of the Gaussian in waves per extended record, as a share of the samples (the paper's
    N/20); `cutoff_hertz` gives that width as a frequency instead. No filter at all: `cutoff_hertz=np.inf`.
    """

    mirror: float = 0.25
    window: float = 0.2
    cutoff_share: float = 1 / 20
    cutoff_hertz: float | None = None

    irregular: ClassVar[bool] = False
    linear: ClassVar[bool] = True

    def __post_init__(self):
        if not (0 < self.mirror < 1 and 0 <= self.window <= 1):
            raise InputError(
                f"got mirror {self.mirror:g} and window {self.window:g}, but both are shares of a record: give 0 to 1"
            )
        if not self.cutoff_share > 0 or (self.cutoff_hertz is not None and not self.cutoff_hertz > 0):
            raise InputError("the cut-off of the low-pass must be positive")

    @property
    def minimum(self) -> int:
        return 8

    def differentiate(self, ts, ys, order):
        value = ys
        for _ in range(order):
            value = self.once(ts, value)
        return Derivative(value)

    def once(self, ts, ys):
        dt = (ts[-1] - ts[0]) / (len(ts) - 1)
        flat, slope = detrended(ts, ys)
        count = max(1, int(self.mirror * len(ts)))
        extended = mirrored(flat, count)
        extended = extended * tukey(len(extended), self.window)[:, None]
        width = self.cutoff_share * len(ts) / (len(extended) * dt) if self.cutoff_hertz is None else self.cutoff_hertz
        rate = wave_derivative(extended, dt, lambda hertz: gaussian(hertz, width))
        return rate[count : count + len(ts)] + slope


def detrended(ts: np.ndarray, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The samples less their least-squares line `a + b t`, and the slopes b (Eqs. lsd-l, lsd-z)."""
    centred = ts - np.mean(ts)
    slope = centred @ ys / (centred @ centred)
    return ys - np.mean(ys, axis=0) - centred[:, None] * slope, slope


def mirrored(ys: np.ndarray, count: int) -> np.ndarray:
    """The record with `count` samples reflected at each end, under a cosine taper to zero (Eq. mirror_all)."""
    taper = 0.5 * (1 - np.cos(np.pi * np.arange(count) / count))[:, None]
    return np.concatenate([taper * ys[count:0:-1], ys, (taper * ys[-count - 1 : -1])[::-1]])


def tukey(count: int, share: float) -> np.ndarray:
    """A flat window with cosine flanks that take up `share` of it (Eq. window)."""
    flank = share * (count - 1) / 2
    if flank == 0:
        return np.ones(count)
    distance = np.minimum(np.arange(count), np.arange(count)[::-1])
    return np.where(distance < flank, 0.5 * (1 - np.cos(np.pi * distance / flank)), 1.0)


def gaussian(hertz: np.ndarray, width: float) -> np.ndarray:
    """The low-pass `exp(-(k / sigma)^2 / 2)` (Eq. gaussian)."""
    return np.exp(-0.5 * (hertz / width) ** 2)


def wave_derivative(ys: np.ndarray, dt: float, low_pass=lambda hertz: np.ones_like(hertz)) -> np.ndarray:
    """The derivative of a record that repeats: each wave times `i omega` and the low-pass (Eqs. fft-*, ifft).

    The wave at the Nyquist frequency has no derivative that its samples could show, so it is left out.
    """
    hertz = np.fft.rfftfreq(len(ys), dt)
    gain = 2j * np.pi * hertz * low_pass(hertz)
    if len(ys) % 2 == 0:
        gain[-1] = 0.0
    return np.fft.irfft(gain[:, None] * np.fft.rfft(ys, axis=0), len(ys), axis=0)
