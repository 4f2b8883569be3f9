"""The last touch on noisy data: multiple shooting, with the integrator in the loop."""

import dataclasses
import math
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fnode.field import AbstractField
from fnode.selection.candidate import Candidate
from fnode.selection.folds import Fold
from fnode.selection.networks import strength
from fnode.selection.problem import NOISY, Problem
from fnode.training import Labelled, LeastSquares, ShootingResidual, Shot, Solution, noise_of, weighted_residual
from fnode.trajectory import State

RIDGE = 1e-6  # how firmly parameters stay where the regression put them
LOST = 100.0  # squared misses, in units of the noise, of a field that does not follow what was measured
PART = 2  # stretches of the shortest trajectory
SHORTER = 5  # times, the stretches that such a field can follow
MOST_SHOTS = 40
MOST_SHOT_SAMPLES, MOST_SAMPLES = 200, 4000  # of one and of all: longer ones are seen at every few samples
MOST_SLOPES = 200_000  # samples times parameters, by which the time goes
SOLVER = LeastSquares(iterations=12, tolerance=1e-2)  # it begins near, and every step integrates all shots


def polished(problem: Problem, candidate: Candidate) -> Candidate:
    """The same candidate after multiple shooting on the part of the data it may see."""
    began = time.perf_counter()

    def fit(fold: Fold) -> tuple[AbstractField, np.ndarray]:
        # A regression on noisy labels may go astray where those on parts of them did not.
        field, history = candidate.fit(fold)
        starts = (field, *candidate.fitted)
        misses = [float(_misfit(start, problem.masked(fold))) for start in starts]
        return _shoot(problem, starts[int(np.nanargmin(misses))], fold), history

    fitted = tuple(_shoot(problem, field, fold) for field, fold in zip(candidate.fitted, problem.folds, strict=True))
    (errors,) = problem.judge([[field] for field in fitted])
    seconds = candidate.verdict.seconds + time.perf_counter() - began
    verdict = dataclasses.replace(candidate.verdict, errors=errors, polished=True, seconds=seconds)
    return Candidate(verdict, fitted, fit, polished_from=candidate)


def _shoot(problem: Problem, field: AbstractField, fold: Fold) -> AbstractField:
    """The field whose rollouts meet the measured samples outside the held-out stretches.

    Long stretches tell most; where a field cannot follow them yet, short ones bring it nearer first.
    """
    long = max(4, problem.shortest // PART)
    solution = _met(problem, field, fold, long)
    if solution.cost < LOST:
        return solution.model
    nearer = _met(problem, field, fold, max(4, long // SHORTER)).model
    again = _met(problem, nearer, fold, long)
    return again.model if again.cost < LOST else nearer


def _met(problem: Problem, field: AbstractField, fold: Fold, length: int) -> Solution:
    """The field after shooting at stretches of one length."""
    felt = strength(field, beside=1.0)
    free = sum(int(jnp.sum(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(felt))
    shots, starts = _shots(problem, fold, length, min(MOST_SAMPLES, MOST_SLOPES // free))
    return SOLVER.minimise(
        field,
        ShootingResidual(problem.solver),
        shots,
        each=starts,
        ridge=RIDGE,
        strength=felt,
        around=True,
    )


@eqx.filter_jit
def _misfit(field: AbstractField, samples: Labelled):
    """The mean squared residual of accelerations."""
    return jnp.mean(jax.vmap(lambda sample: weighted_residual(field, sample))(samples) ** 2)


def _shots(problem: Problem, fold: Fold, length: int, most: int) -> tuple[Shot, State]:
    """Stretches of the measured samples, `most` of them in all, and where each begins as far as is known.

    What a fold holds out is not a number, and so without influence: shapes stay the same.
    """
    measured, smooth = (
        np.concatenate([getattr(part, kind).states for part in problem.parts]) for kind in ("measured", "smooth")
    )
    unit = jnp.maximum(noise_of(measured, smooth), NOISY * problem.spread)
    places = [
        (number, first)
        for number, part in enumerate(problem.parts)
        for first in range(0, len(part.smooth) - length + 1, length)
    ]
    places = places[:: math.ceil(len(places) / MOST_SHOTS)]
    stride = math.ceil(length / max(4, min(MOST_SHOT_SAMPLES, most // len(places))))
    shots, starts = [], []
    for number, first in places:
        part, inside = problem.parts[number], slice(first, first + length, stride)
        measured = part.measured[inside]
        free = np.array([fold.allows(number, t, t) for t in np.asarray(measured.ts).tolist()])
        shots.append(Shot(measured.ts, jnp.where(free[:, None], measured.states, jnp.nan), measured.u, unit))
        starts.append(jax.tree.map(lambda leaf, first=first: leaf[first], part.smooth.x))
    return tuple(jax.tree.map(lambda *leaves: jnp.stack(leaves), *each) for each in (shots, starts))
