"""The default: method and parameters chosen from the samples alone, channel by channel."""

import dataclasses
from typing import ClassVar

import numpy as np
from scipy import special

from fnode.derivatives._base import AbstractSmoother, Curve
from fnode.derivatives._noise import measured_noise
from fnode.derivatives.gaussian_process import GaussianProcess
from fnode.derivatives.smoothing_spline import SmoothingSpline
from fnode.derivatives.spline import InterpolatingSpline

ROUNDS = 20
ORDINARY = 0.85  # of the samples are no outliers, whatever happens
LARGEST_SHARE = 0.1  # of the samples: if more look like outliers, the noise is not what it seems, and all are kept
SPIKE = 1e-4  # of the signal: a disturbance of clean data that interpolation must not pass through
NEGLIGIBLE = 1e-6  # of the signal: distances that rounding to single precision explains
QUICK, SMOOTH = SmoothingSpline(m=(4,)), SmoothingSpline()
# Of one order: with m = 3 second derivatives are hardly smooth, and their deviations come out a quarter too wide; with
# m = 5, whose stiffness varies by five powers of ten, errors were larger on the study's channels.
ADAPTIVE = SmoothingSpline(m=(4,), rounds=4)
PROCESS, THROUGH = GaussianProcess(), InterpolatingSpline()
GROUP = 4  # samples of which means are taken where neighbours share their noise
FEWEST_MEANS, FREEDOM_MEANS = 250, 1.5  # so many of them, also for each parameter of the curve that is doubted
SAME = 0.7  # of its parameters: if the curve through the means spends less, the other took noise for motion


@dataclasses.dataclass(frozen=True)
class Auto(AbstractSmoother):
    """Interpolation where the samples are clean, a smooth curve where they are noisy, without outliers.

    The noise is measured by high differences, relative to the channel's spread. Below `clean` (a tenth of it for second
    derivatives) a spline goes through every sample; above, a Gaussian process is drawn, or a smoothing spline below
    `faint`, where the covariance of a process is all rounding, and for records too `long` for full matrices. A spline
    that adapts its stiffness takes their place when it predicts each sample from the others better by `doubt` in minus
    twice the log likelihood (per `long` samples): adapting is a freedom that it does not see. Samples further than
    `outlier` standard deviations from the curve are left aside and the curve is drawn again.

    Noise that neighbours share looks like motion. Where samples are plenty the curve is drawn again through the means
    of four samples each: if that one spends clearly fewer parameters, the first took noise for motion.
    """

    clean: float = 1e-8
    faint: float = 3e-7
    long: int = 500
    outlier: float = 5.0
    doubt: float = 10.0
    process: GaussianProcess = PROCESS
    smooth: SmoothingSpline = SMOOTH
    adaptive: SmoothingSpline = ADAPTIVE
    through: InterpolatingSpline = THROUGH

    linear: ClassVar[bool] = False

    @property
    def minimum(self) -> int:
        return 8

    def fit(self, ts, y, order):
        curve = self.drawn(ts, y, order)
        if len(ts) < GROUP * max(FREEDOM_MEANS * curve.freedom, FEWEST_MEANS):
            return curve
        means = Means(ts, y)
        rough = self.drawn(means.ts, means.y, order)
        if rough.freedom > SAME * curve.freedom:
            return curve
        straightened = self.drawn(means.ts, means.y - means.width * rough.at(means.ts, 2)[0], order)
        return dataclasses.replace(
            straightened, noise=straightened.noise * GROUP**0.5, rejected=means.members(straightened.rejected)
        )

    def drawn(self, ts: np.ndarray, y: np.ndarray, order: int) -> Curve:
        """The curve of all samples but the outliers."""
        noise, largest = measured_noise(ts, y)
        kept = np.ones(len(ts), bool)
        if len(ts) >= 2 * self.minimum and largest > max(self.outlier * noise, NEGLIGIBLE):
            kept = self.inliers(ts, y, noise)
            noise, largest = measured_noise(ts[kept], y[kept])
        curve = self.once(ts[kept], y[kept], order, noise, largest)
        near = self.near(curve, ts, y, kept)
        if not np.array_equal(near, kept) and self.enough(near):  # the better curve takes samples back, or finds more
            kept, curve = near, self.once(ts[near], y[near], order, *measured_noise(ts[near], y[near]))
        return dataclasses.replace(curve, rejected=tuple(int(i) for i in np.flatnonzero(~kept)))

    def once(self, ts: np.ndarray, y: np.ndarray, order: int, noise: float, largest: float) -> Curve:
        """The curve through or near all of these samples."""
        if len(ts) >= self.through.minimum and noise < self.clean / 10 ** (order - 1) and largest < SPIKE:
            return self.through.fit(ts, y, order)
        if len(ts) < self.smooth.minimum:
            return self.process.fit(ts, y, order)
        if noise < self.faint or len(ts) > self.long:
            even = like = self.smooth.near(ts, y, noise)
        else:
            even, like = self.process.fit(ts, y, order), None
        adapted = self.adaptive.near(ts, y, noise, like)
        doubt = self.doubt * max(1.0, len(ts) / self.long)
        return adapted if adapted.surprise < even.surprise - doubt else even

    def inliers(self, ts: np.ndarray, y: np.ndarray, noise: float) -> np.ndarray:
        """Which samples lie near a quickly drawn curve; the farthest go first, since they bend it towards them."""
        kept = np.ones(len(ts), bool)
        for _ in range(ROUNDS):
            curve = QUICK.near(ts[kept], y[kept], noise)
            far = ~self.near(curve, ts, y, kept)
            distance = np.abs(y - curve.at(ts)[0])
            worst = far & kept & (distance > 0.5 * np.max(distance[far & kept], initial=0.0))
            back = ~far & ~kept
            if not np.any(worst | back):
                break
            kept = kept & ~worst | back
        return kept if self.enough(kept) else np.ones(len(ts), bool)

    def near(self, curve: Curve, ts: np.ndarray, y: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Which samples lie within the usual distance of a curve drawn through those kept."""
        distance = np.abs(y - curve.at(ts)[0])
        return distance <= max(self.outlier * usual_distance(distance[kept]), NEGLIGIBLE)

    def enough(self, kept: np.ndarray) -> bool:
        return bool(np.sum(kept) >= max((1 - LARGEST_SHARE) * len(kept), self.minimum))


class Means:
    """The means of groups of neighbours, at the means of their times; the first and the last sample stay alone.

    Where the motion bends, a mean is off by `width` times the second derivative.
    """

    def __init__(self, ts: np.ndarray, y: np.ndarray):
        self.first = np.append([0], np.append(np.arange(1, len(ts) - 1, GROUP), len(ts) - 1))
        self.size = np.diff(np.append(self.first, len(ts)))
        self.ts, self.y = (np.add.reduceat(values, self.first) / self.size for values in (ts, y))
        apart = ts - np.repeat(self.ts, self.size)
        self.width = np.add.reduceat(apart**2, self.first) / self.size / 2

    def members(self, groups: tuple[int, ...]) -> tuple[int, ...]:
        """The samples of some groups."""
        return tuple(int(i) for k in groups for i in range(self.first[k], self.first[k] + self.size[k]))


def usual_distance(distance: np.ndarray) -> float:
    """The standard deviation of normal numbers with these magnitudes, from one that fewer than `LARGEST_SHARE` exceed.

    The median would be misled by rounded positions: they lie on the curve while at rest and off it while they move.
    """
    return float(np.quantile(distance, ORDINARY)) / float(special.ndtri(0.5 + 0.5 * ORDINARY))
