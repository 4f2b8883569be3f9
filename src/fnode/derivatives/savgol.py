"""Savitzky-Golay: a polynomial fitted to a sliding window, its width chosen by cross-validation."""

import dataclasses
import functools
from typing import ClassVar

import numpy as np
from numpy.polynomial import legendre
from scipy.signal import oaconvolve

from fnode.derivatives._base import AbstractDerivative, Derivative


@dataclasses.dataclass(frozen=True)
class SavitzkyGolay(AbstractDerivative):
    """Derivatives of local polynomials of a degree, on the window with the least generalised cross-validation score.

    The score is `n rss / (n - trace)^2`; at the ends the polynomial of the first or last whole window serves. The
    variance covers the noise only, not what the polynomial cannot follow.
    """

    degree: int = 5

    irregular: ClassVar[bool] = False
    linear: ClassVar[bool] = False

    @property
    def minimum(self) -> int:
        return self.degree + 4

    def differentiate(self, ts, ys, order):
        dt = (ts[-1] - ts[0]) / (len(ts) - 1)
        value, variance = np.empty_like(ys), np.empty_like(ys)
        windows = [Window(width, self.degree) for width in self.widths(len(ts))]
        for channel, y in enumerate(ys.T):
            scored = [window.score(y) for window in windows]
            best = int(np.argmin([score for score, _ in scored]))
            rate, gain = windows[best].apply(y, order)
            value[:, channel] = rate / dt**order
            variance[:, channel] = scored[best][1] * gain / dt ** (2 * order)
        return Derivative(value, variance)

    def widths(self, count: int) -> list[int]:
        """Odd window widths, each about a sixth wider than the one before."""
        widest = count if count % 2 else count - 1
        grid = np.geomspace(self.degree + 3, widest, 24)
        return sorted({min(int(width) // 2 * 2 + 1, widest) for width in grid})


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of unit steps and the polynomial fitted in it."""

    width: int
    degree: int

    @functools.cached_property
    def basis(self) -> tuple[np.ndarray, np.ndarray]:
        """Orthonormal polynomials on the window, and the triangle that takes Legendre's to them."""
        return np.linalg.qr(legendre.legvander(np.linspace(-1.0, 1.0, self.width), self.degree))

    def rates(self, order: int) -> np.ndarray:
        """The derivative of this order of each orthonormal polynomial at every sample of the window."""
        x = np.linspace(-1.0, 1.0, self.width)
        plain = [legendre.legval(x, legendre.legder(unit, order)) for unit in np.eye(self.degree + 1)]
        return np.stack(plain, axis=1) @ np.linalg.inv(self.basis[1]) * (2.0 / (self.width - 1)) ** order

    def apply(self, y: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives at every sample, and how much each amplifies the variance of the noise."""
        half, rates, polynomials = self.width // 2, self.rates(order), self.basis[0]
        gains = np.sum(rates**2, axis=1)
        centre = polynomials @ rates[half]
        value, gain = np.empty(len(y)), np.full(len(y), gains[half])
        value[half : len(y) - half] = oaconvolve(y, centre[::-1], "valid")
        for end, window in ((slice(0, half), slice(0, self.width)), (slice(-half, None), slice(-self.width, None))):
            value[end], gain[end] = rates[end] @ (polynomials.T @ y[window]), gains[end]
        return value, gain

    def score(self, y: np.ndarray) -> tuple[float, float]:
        """The cross-validation score, and the variance of the noise that it implies."""
        leverage = np.sum(self.basis[0] ** 2, axis=1)
        residual = y - self.apply(y, 0)[0]
        trace = self.degree + 1 + (len(y) - self.width) * leverage[self.width // 2]
        left = max(len(y) - float(trace), 1e-9)
        cost = float(residual @ residual)
        return len(y) * cost / left**2, cost / left
