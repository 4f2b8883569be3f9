"""Curves as B-splines that pay for roughness, fitted and weighed in time proportional to the samples.

The curve minimises `sum (y - f)^2 + weight * integral (f^(m))^2 dt`; polynomials of degree m - 1 are free. It is also
the mean of a Gaussian model, white noise on a process whose m-th derivative is white: so its weight is the one that
makes what the free polynomials leave of the samples most likely (restricted likelihood), and its variance comes with
the solution. All matrices are banded.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy import ndimage

from fnode.derivatives import _banded
from fnode.derivatives._base import Curve
from fnode.derivatives._bsplines import Basis, Rows, even_energy

LOST = 10.0  # times the measured noise: a curve that leaves more than this has not found the motion
FINE = 1.2  # radians per knot: a curve that bends faster needs finer knots
STIFFEST = 300.0  # how much dearer roughness may be at the smoothest place than at the roughest
WAVE = 1.0  # radians of the cut-off over which roughness is averaged
SLOWEST, FASTEST = 0.05, 8.0  # radians per knot: slower is beyond rounding, faster is every sample by itself


@dataclasses.dataclass(frozen=True, kw_only=True)
class PenalisedCurve(Curve):
    """The most likely curve and the covariance of its coefficients inside the band.

    `surprise` is minus twice the log likelihood of each sample given all the others.
    """

    basis: Basis
    coefficients: np.ndarray
    covariance: np.ndarray
    start: float
    step: float
    surprise: float

    def at(self, ts, order=0):
        rows = self.basis.rows((ts - self.start) / self.step, order)
        scale = self.step**-order
        return scale * np.asarray(rows.matrix @ self.coefficients), scale * np.sqrt(
            np.maximum(rows.spread(self.covariance), 0.0)
        )


@dataclasses.dataclass(frozen=True)
class Solution:
    """The curve of one weight: minus twice its restricted log likelihood, and the parts of it."""

    cost: float
    coefficients: np.ndarray
    factor: np.ndarray
    variance: float


@dataclasses.dataclass(frozen=True)
class Problem:
    """One record of samples on even knots.

    The weight is told by its `cutoff`: the fastest wave that it lets pass, in radians per knot. `stiffness` makes
    roughness dearer between some knots than between others; its geometric mean is one.
    """

    ts: np.ndarray
    y: np.ndarray
    intervals: int
    m: int
    stiffness: np.ndarray | None = None

    @functools.cached_property
    def step(self) -> float:
        return (self.ts[-1] - self.ts[0]) / self.intervals

    @functools.cached_property
    def basis(self) -> Basis:
        return Basis(np.arange(self.intervals + 1.0), 2 * self.m - 1)

    @functools.cached_property
    def rows(self) -> Rows:
        return self.basis.rows((self.ts - self.ts[0]) / self.step)

    @functools.cached_property
    def gram(self) -> np.ndarray:
        return self.rows.gram()

    @functools.cached_property
    def moment(self) -> np.ndarray:
        return self.rows.matrix.T @ self.y

    @functools.cached_property
    def energy(self) -> np.ndarray:
        if self.stiffness is None:
            return even_energy(self.intervals, self.basis.degree, self.m)
        return self.basis.energy(self.m, self.stiffness)

    def solve(self, cutoff: float) -> Solution | None:
        """The curve of one cut-off, or None where rounding makes the matrix singular."""
        weight = len(self.ts) / self.intervals / cutoff ** (2 * self.m)
        factor = _banded.cholesky(self.gram + weight * self.energy)
        if factor is None:
            return None
        coefficients = _banded.solve(factor, self.moment)
        residual = self.y - self.rows.matrix @ coefficients
        roughness = max(_banded.quadratic(self.energy, coefficients), 0.0)
        count, rank = len(self.y) - self.m, self.basis.size - self.m
        variance = max(float(residual @ residual + weight * roughness) / count, 1e-300)
        cost = count * math.log(variance) + _banded.log_determinant(factor) - rank * math.log(weight)
        return Solution(cost, coefficients, factor, variance)

    def best(self, guess: float | None) -> tuple[float, Solution]:
        """The most likely cut-off and its curve."""

        def cost(log_cutoff):
            solution = self.solve(math.exp(log_cutoff))
            return 1e300 if solution is None else solution.cost

        low, high = math.log(SLOWEST), math.log(FASTEST)
        grid = np.linspace(low, high, 12) if guess is None else math.log(guess) + np.linspace(-1.0, 1.0, 5)
        here = min(np.clip(grid, low, high), key=cost)
        cutoff = math.exp(min(np.clip(here + np.linspace(-0.4, 0.4, 9), low, high), key=cost))
        while (solution := self.solve(cutoff)) is None:
            cutoff *= 2.0  # a smaller weight is further from singular
        return cutoff, solution

    def softened(self, cutoff: float, solution: Solution) -> "Problem":
        """The same record, where roughness costs less in places that a first curve shows to be rough.

        The square of the m-th derivative between knots, averaged over about one wave of the cut-off, tells how rough
        the motion is there; nowhere does it cost more than `STIFFEST` times what it costs at the roughest place.
        """
        middles = np.arange(self.intervals) + 0.5
        rough = (self.basis.rows(middles, self.m).matrix @ solution.coefficients) ** 2
        rough = ndimage.gaussian_filter1d(rough, max(1.0, WAVE / cutoff), mode="nearest")
        stiffness = 1.0 / (rough / np.max(rough) + 1.0 / STIFFEST)
        return dataclasses.replace(self, stiffness=stiffness / np.exp(np.mean(np.log(stiffness))))

    def curve(self, solution: Solution, name: str) -> PenalisedCurve:
        inverse = _banded.inverse_band(solution.factor)
        leverage = self.rows.spread(inverse)
        rest = np.maximum(1.0 - leverage, 1e-9)
        alone = (self.y - self.rows.matrix @ solution.coefficients) / rest
        return PenalisedCurve(
            name=name,
            noise=math.sqrt(solution.variance),
            freedom=float(np.sum(leverage)),
            basis=self.basis,
            coefficients=solution.coefficients,
            covariance=solution.variance * inverse,
            start=self.ts[0],
            step=self.step,
            surprise=float(np.sum(np.log(solution.variance / rest) + alone**2 * rest / solution.variance)),
        )


def fit_penalised(
    ts: np.ndarray,
    y: np.ndarray,
    noise: float,
    *,
    m: int,
    name: str,
    intervals: int | None = None,
    rounds: int = 0,
) -> PenalisedCurve:
    """The most likely curve, on knots refined until they follow it.

    Knots start coarse (with `intervals` pieces if given) and halve while the curve bends faster than they can follow,
    or leaves more than the `noise` that the samples were measured to have.
    """
    finest, guess = len(ts) - 1, None
    intervals = min(max(8, intervals or len(ts) // 64), finest)
    while True:
        problem = Problem(ts, y, intervals, m)
        cutoff, solution = problem.best(guess)
        follows = cutoff < FINE and math.sqrt(solution.variance) < 1.5 * noise
        if follows or intervals == finest:
            break
        finer = min(2 * intervals, finest)
        # A curve that misses most of the motion on coarse knots says nothing about the one on finer knots.
        guess = cutoff * intervals / finer if math.sqrt(solution.variance) < LOST * noise else None
        intervals = finer
    if rounds and intervals < finest:  # where roughness is cheap the curve bends faster than anywhere before
        finer = min(2 * intervals, finest)
        problem = Problem(ts, y, finer, m)
        cutoff, solution = problem.best(cutoff * intervals / finer)
    for _ in range(rounds):
        problem = problem.softened(cutoff, solution)
        cutoff, solution = problem.best(cutoff)
    return problem.curve(solution, name)
