"""Gaussian processes: the most likely smooth function behind the samples, its smoothness learned from them."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
from numpy.polynomial import Polynomial
from scipy import linalg, optimize

from fnode.derivatives._base import AbstractSmoother, Curve
from fnode.errors import InputError

NOISE_FLOOR = 1e-12  # of the signal's variance: below it rounding spoils the factor of the covariance


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A covariance `p(x) d(x)` of the scaled lag `x = |t - s| rate / length`, p a polynomial, d a decay.

    The decay is `exp(-x)` or `exp(-x^2 / 2)`; derivatives change only the polynomial: to `p' - p` or `p' - x p`.
    """

    polynomial: tuple[float, ...]
    rate: float
    gaussian: bool

    def __call__(self, lag: np.ndarray, length: float, order: int = 0) -> np.ndarray:
        """The derivative of this order with respect to the (signed) lag."""
        polynomial, slope = Polynomial(self.polynomial), Polynomial([0, 1]) if self.gaussian else Polynomial([1])
        for _ in range(order):
            polynomial = polynomial.deriv() - slope * polynomial
        x = np.abs(lag) * (self.rate / length)
        value = polynomial(x) * np.exp(-0.5 * x**2 if self.gaussian else -x) * (self.rate / length) ** order
        return value * np.sign(lag) if order % 2 else value


RBF = Kernel((1.0,), 1.0, gaussian=True)
MATERN72 = Kernel((1.0, 1.0, 2 / 5, 1 / 15), math.sqrt(7.0), gaussian=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessCurve(Curve):
    """The posterior of a Gaussian process with a chosen kernel, length and noise.

    `surprise` is minus twice the log likelihood of each sample given all the others.
    """

    ts: np.ndarray
    kernel: Kernel
    length: float
    scale: float
    factor: np.ndarray
    weights: np.ndarray
    evidence: float
    surprise: float

    def at(self, ts, order=0):
        cross = self.kernel(ts[:, None] - self.ts, self.length, order)
        explained = linalg.solve_triangular(self.factor, cross.T, lower=True)
        prior = (-1) ** order * self.kernel(np.zeros(1), self.length, 2 * order)
        return cross @ self.weights, self.scale * np.sqrt(np.maximum(prior - np.sum(explained**2, axis=0), 0.0))


@dataclasses.dataclass(frozen=True)
class GaussianProcess(AbstractSmoother):
    """A squared-exponential or Matern 7/2 process, whichever makes the samples more likely.

    For short records: the matrices are full, and the cost grows with the cube of the samples.
    """

    most: int = 2000

    linear: ClassVar[bool] = False

    @property
    def minimum(self) -> int:
        return 8

    def fit(self, ts, y, order):
        if len(ts) > self.most:
            raise InputError(
                f"got {len(ts)} samples, but a Gaussian process takes at most {self.most}: "
                f"choose 'auto' or 'smoothing_spline' for long records"
            )
        return min((fit_process(ts, y, kernel) for kernel in (RBF, MATERN72)), key=lambda curve: curve.evidence)


def likelihood(covariance: np.ndarray, y: np.ndarray, ratio: float) -> tuple[float, np.ndarray]:
    """Minus twice the log likelihood of `y`, its scale chosen for the best, and the factor behind it."""
    noisy = covariance.copy()
    noisy[np.diag_indices(len(y))] += ratio
    try:
        factor = linalg.cholesky(noisy, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return math.inf, noisy
    white = linalg.solve_triangular(factor, y, lower=True, check_finite=False)
    return len(y) * math.log(float(white @ white) / len(y)) + 2 * float(np.sum(np.log(np.diag(factor)))), factor


def fit_process(ts: np.ndarray, y: np.ndarray, kernel: Kernel) -> ProcessCurve:
    """The process of this kernel whose length and noise make the samples most likely."""
    lag = ts[:, None] - ts
    shortest, longest = math.log(2 * float(np.median(np.diff(ts)))), math.log(4 * (ts[-1] - ts[0]))
    lowest, highest = math.log(NOISE_FLOOR), math.log(1e2)

    def bounded(logs):
        return min(max(logs[0], shortest), longest), min(max(logs[1], lowest), highest)

    def cost(logs):
        length, ratio = bounded(logs)
        outside = (length - logs[0]) ** 2 + (ratio - logs[1]) ** 2
        return likelihood(kernel(lag, math.exp(length)), y, math.exp(ratio))[0] + outside

    half = slice(None, None, 2 if len(ts) >= 100 else 1)  # every second sample is enough for a first guess
    guesses = []
    for length in np.linspace(shortest, longest, 2 + int((longest - shortest) / math.log(2.5))):
        covariance = kernel(lag[half, half], math.exp(length))
        for ratio in np.linspace(lowest, highest, 8):
            guesses.append((likelihood(covariance, y[half], math.exp(ratio))[0], length, ratio))
    here = np.array(min(guesses)[1:])
    simplex = here + np.array([[0, 0], [0.4, 0], [0, 1.5]])
    found = optimize.minimize(
        cost,
        here,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.05, "fatol": 0.05, "maxfev": 60},
    )
    length, ratio = (math.exp(x) for x in bounded(found.x))
    evidence, factor = likelihood(kernel(lag, length), y, ratio)
    weights = linalg.cho_solve((factor, True), y)
    scale = math.sqrt(float(y @ weights) / len(y))
    inverse = linalg.solve_triangular(factor, np.eye(len(ts)), lower=True)
    alone = np.sum(inverse**2, axis=0)  # the precision of each sample given all the others, in units of the scale
    return ProcessCurve(
        name="gp",
        noise=scale * math.sqrt(ratio),
        freedom=len(ts) - ratio * float(np.sum(inverse**2)),
        ts=ts,
        kernel=kernel,
        length=length,
        scale=scale,
        factor=factor,
        weights=weights,
        evidence=evidence,
        surprise=float(np.sum(np.log(scale**2 / alone) + weights**2 / (alone * scale**2))),
    )
