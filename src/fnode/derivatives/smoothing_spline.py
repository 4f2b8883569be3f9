"""Smoothing splines: the smoothest curve that the noise allows, in time proportional to the samples."""

import dataclasses
from typing import ClassVar

import numpy as np

from fnode.derivatives._base import AbstractSmoother
from fnode.derivatives._noise import measured_noise
from fnode.derivatives._penalised import PenalisedCurve, fit_penalised


@dataclasses.dataclass(frozen=True)
class SmoothingSpline(AbstractSmoother):
    """The curve that minimises `sum (y - f)^2 + weight * integral (f^(m))^2 dt`, the weight by restricted likelihood.

    Polynomials of degree m - 1 pass unchanged. Of several `m` the one is kept that best predicts each sample from the
    others; m = 2, the common cubic smoothing spline, is too stiff at the ends for derivatives.

    With `rounds` the spline adapts: so many times it is drawn again with roughness made cheaper where the last curve
    was rough and dearer where it was not. Motions that are fast at times and slow at others gain most.
    """

    m: tuple[int, ...] = (3, 4, 5)
    rounds: int = 0

    linear: ClassVar[bool] = False

    @property
    def minimum(self) -> int:
        return 2 * max(self.m)

    def fit(self, ts, y, order):
        return self.near(ts, y, measured_noise(ts, y)[0])

    def near(self, ts: np.ndarray, y: np.ndarray, noise: float, like: PenalisedCurve | None = None) -> PenalisedCurve:
        """The curve near samples whose noise was measured before; one that it will be like saves some of the search."""
        curves, name = [], "adaptive_spline" if self.rounds else "smoothing_spline"
        for m in self.m:
            curves.append(like := fit_penalised(ts, y, noise, m=m, name=name, like=like, rounds=self.rounds))
        return min(curves, key=lambda curve: curve.surprise)
