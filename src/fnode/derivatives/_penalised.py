"""Curves as B-splines that pay for roughness, fitted and weighed in time proportional to the samples.

The curve minimises `sum (y - f)^2 + weight * integral (f^(m))^2 dt`; polynomials of degree m - 1 are free. It is also
the mean of a Gaussian model, white noise on a process whose m-th derivative is white: so its weight is the one that
makes what the free polynomials leave of the samples most likely (restricted likelihood), and its variance comes with
the solution. All matrices are banded.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from scipy import ndimage

from fnode.derivatives import _banded
from fnode.derivatives._base import Curve
from fnode.derivatives._bsplines import Basis, Quadrature, Rows, even_energy

LOST = 10.0  # times the measured noise: a curve that leaves more than this has not found the motion
FINE = 1.2  # radians per knot: a curve that bends faster needs finer knots
SLOWER = 3.0  # times the waves that pass at the roughest place may be faster than those at the smoothest
WAVE = 1.0  # radians of the cut-off over which roughness is averaged
SLOWEST, FASTEST = 0.05, 8.0  # radians per knot: slower is beyond rounding, faster is every sample by itself
STEP = 0.2  # of the logarithm of the cut-off, in the search for the most likely one


@dataclasses.dataclass(frozen=True)
class Solution:
    """The curve of one cut-off: minus twice its restricted log likelihood, and the parts of it."""

    cutoff: float
    cost: float
    coefficients: np.ndarray
    factor: np.ndarray
    variance: float


@dataclasses.dataclass(frozen=True)
class Problem:
    """One record of samples on even knots.

    The weight of roughness is told by its `cutoff`: the fastest wave that it lets pass, in radians per knot. The
    `energy` of a curve, its roughness, is the same everywhere unless another one is given.
    """

    ts: np.ndarray
    y: np.ndarray
    intervals: int
    m: int

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
    def quadrature(self) -> Quadrature:
        return self.basis.quadrature(self.m)

    def of_order(self, m: int) -> "Problem":
        """The same samples on the same knots, under another order of roughness."""
        return self if m == self.m else dataclasses.replace(self, m=m)

    def solve(self, cutoff: float, energy: np.ndarray | None = None) -> Solution | None:
        """The curve of one cut-off, or None where rounding makes the matrix singular."""
        energy = even_energy(self.intervals, self.basis.degree, self.m) if energy is None else energy
        weight = len(self.ts) / self.intervals / cutoff ** (2 * self.m)
        factor = _banded.cholesky(self.gram + weight * energy)
        if factor is None:
            return None
        coefficients = _banded.solve(factor, self.moment)
        residual = self.y - self.rows.matrix @ coefficients
        roughness = max(_banded.quadratic(energy, coefficients), 0.0)
        count, rank = len(self.y) - self.m, self.basis.size - self.m
        variance = max(float(residual @ residual + weight * roughness) / count, 1e-300)
        cost = count * math.log(variance) + _banded.log_determinant(factor) - rank * math.log(weight)
        return Solution(cutoff, cost, coefficients, factor, variance)

    def best(self, guess: float | None, energy: np.ndarray | None = None) -> Solution:
        """The curve of the most likely cut-off: from a guess downhill, without one from the best of a grid."""
        low, high = math.log(SLOWEST), math.log(FASTEST)
        found: dict[float, Solution | None] = {}

        def cost(place: float) -> float:
            if place not in found:
                found[place] = self.solve(math.exp(place), energy)
            solution = found[place]
            return 1e300 if solution is None else solution.cost

        grid = np.linspace(low, high, 12) if guess is None else (min(max(math.log(guess), low), high),)
        here = descended(cost, min(map(float, grid), key=cost), low, high)
        while (solution := found[here]) is None:
            here += math.log(2.0)  # a smaller weight is further from singular
            cost(here)
        return solution

    def stiffness(self, solution: Solution) -> np.ndarray:
        """What roughness should cost between knots, less in places that a first curve shows to be rough.

        The square of the m-th derivative between knots, averaged over about one wave of the cut-off, tells how rough
        the motion is there; the cut-off is nowhere less than that of the roughest place over `SLOWER`. The geometric
        mean of the cost is one.
        """
        middles = np.arange(self.intervals) + 0.5
        rough = (self.basis.rows(middles, self.m).matrix @ solution.coefficients) ** 2
        rough = ndimage.gaussian_filter1d(rough, max(1.0, WAVE / solution.cutoff), mode="nearest")
        stiffness = 1.0 / (rough / np.max(rough) + SLOWER ** (-2 * self.m))
        return stiffness / np.exp(np.mean(np.log(stiffness)))

    def fastest(self, solution: Solution) -> float:
        """The cut-off of a solution at the roughest place, if its stiffness adapts."""
        return solution.cutoff * float(np.min(self.stiffness(solution))) ** (-1 / (2 * self.m))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PenalisedCurve(Curve):
    """The most likely curve and the covariance of its coefficients inside the band.

    `surprise` is minus twice the log likelihood of each sample given all the others.
    """

    problem: Problem
    solution: Solution
    covariance: np.ndarray
    surprise: float

    def at(self, ts, order=0):
        step = self.problem.step
        rows = self.problem.basis.rows((ts - self.problem.ts[0]) / step, order)
        sd = np.sqrt(np.maximum(rows.spread(self.covariance), 0.0))
        return np.asarray(rows.matrix @ self.solution.coefficients) / step**order, sd / step**order


def drawn(problem: Problem, solution: Solution, name: str) -> PenalisedCurve:
    """The curve of a solution, with all that is known of its error."""
    inverse = _banded.inverse_band(solution.factor)
    leverage = problem.rows.spread(inverse)
    rest = np.maximum(1.0 - leverage, 1e-9)
    alone = (problem.y - problem.rows.matrix @ solution.coefficients) / rest
    return PenalisedCurve(
        name=name,
        noise=math.sqrt(solution.variance),
        freedom=float(np.sum(leverage)),
        problem=problem,
        solution=solution,
        covariance=solution.variance * inverse,
        surprise=float(np.sum(np.log(solution.variance / rest) + alone**2 * rest / solution.variance)),
    )


def descended(cost: Callable[[float], float], here: float, low: float, high: float) -> float:
    """A minimum of a smooth function near a place: steps downhill until it is enclosed, then a parabola's vertex."""
    while True:
        left, right = max(here - STEP, low), min(here + STEP, high)
        best = min((here, left, right), key=cost)
        if best == here:
            break
        here = best
    fall, rise = cost(here) - cost(left), cost(right) - cost(here)
    if not left < here < right or rise <= fall:
        return here
    return min((here, here + 0.5 * STEP * (fall + rise) / (fall - rise)), key=cost)


def fit_penalised(
    ts: np.ndarray,
    y: np.ndarray,
    noise: float,
    *,
    m: int,
    name: str,
    like: PenalisedCurve | None = None,
    rounds: int = 0,
) -> PenalisedCurve:
    """The most likely curve, on knots refined until they follow it.

    Knots start coarse (or as those of a curve that this one will be `like`) and are refined while the curve bends
    faster than they can follow, or leaves more than the `noise` that the samples were measured to have.
    """
    finest = len(ts) - 1
    if like is None:
        problem, guess = Problem(ts, y, min(max(8, len(ts) // 64), finest), m), None
    else:
        problem, guess = like.problem.of_order(m), like.solution.cutoff
    solution = like.solution if like is not None and like.problem.m == m else problem.best(guess)
    while problem.intervals < finest:
        left = math.sqrt(solution.variance) / max(noise, 1e-300)
        fastest = problem.fastest(solution) if rounds and solution.cutoff < FINE else solution.cutoff
        if fastest < FINE and left < 1.5:
            break
        # A curve that misses most of the motion on coarse knots says nothing about the one on finer knots.
        found = left < LOST
        halvings = max(1, math.ceil(math.log2(fastest / FINE))) if found else 1
        finer = min(2**halvings * problem.intervals, finest)
        guess = solution.cutoff * problem.intervals / finer if found else None
        problem = Problem(ts, y, finer, m)
        solution = problem.best(guess)
    for _ in range(rounds):
        energy = problem.quadrature.energy(problem.stiffness(solution))
        solution = problem.best(solution.cutoff, energy)
    return drawn(problem, solution, name)
