"""Where a motion begins, when its samples are noisy: no single one tells, but all of them together do."""

import math

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from fnode.models import RolledOut
from fnode.training.least_squares import LeastSquares
from fnode.training.shooting import ShootingResidual, Shot
from fnode.trajectory import State, Trajectory

SHORTEST, MOST = 8, 1000  # samples that tell of a start
MARGIN = 1.1  # of the mean squared miss, in units of the noise, for the noise itself is an estimate
APART = 2.5  # deviations
SOLVER = LeastSquares(iterations=15, tolerance=1e-3)


class _Miss(eqx.Module):
    """What a rollout misses, as a function of its start."""

    rolled: RolledOut

    def __call__(self, start: State, window: Shot):
        return ShootingResidual(self.rolled.solver)(self.rolled.field, start, window)


def estimated_start(rolled: RolledOut, measured: Trajectory, guess: State, noise) -> State:
    """The start from which the rollout of a model meets noisy samples best, by least squares.

    First only a few samples count, then twice as many and so on, as long as the model follows them within the `noise`
    of each column (infinite where nothing was measured; samples may be nan) and the start stays where fewer samples
    put it, as far as their noise lets them tell: more of them tell it better, but over a longer way the error of the
    model counts more (Lepski, 1991). A model that follows none leaves the guess as it is.
    """
    measured = measured[:MOST]
    if len(measured) < SHORTEST:
        return guess
    noise, states = jnp.asarray(noise), measured.states
    lengths = [SHORTEST * 2**k for k in range(math.ceil(math.log2(len(measured) / SHORTEST)))] + [len(measured)]
    told: list[tuple[np.ndarray, np.ndarray]] = []  # starts by fewer samples, and how far off these may be
    for length in lengths:
        seen = jnp.where(jnp.arange(len(measured))[:, None] < length, states, jnp.nan)
        shot = jax.tree.map(lambda leaf: leaf[None], Shot(measured.ts, seen, measured.u, noise))
        found = SOLVER.minimise(guess, _Miss(rolled), shot, ridge=0.0).model
        counted = int(jnp.sum(~jnp.isnan(seen) & jnp.isfinite(noise)))
        place, missed, deviation = (np.asarray(value) for value in _told(_Miss(rolled), found, shot))
        # Noise alone would miss about as many squares as there are numbers, three deviations more at most.
        if counted == 0 or not missed <= MARGIN * counted + 3 * math.sqrt(2 * counted):
            break
        if any((np.abs(place - before) > APART * possible).any() for before, possible in told):
            break
        told.append((place, deviation))
        guess = found
    return guess


@eqx.filter_jit
def _told(miss: _Miss, start: State, shot: Shot):
    """A start as one row of numbers, the sum of squared misses, and the standard deviations of the row."""
    row, unflatten = jax.flatten_util.ravel_pytree(start)
    window = jax.tree.map(lambda leaf: leaf[0], shot)
    slope = jax.jacfwd(lambda row: miss(unflatten(row), window))(row)
    return row, jnp.sum(miss(start, window) ** 2), jnp.sqrt(jnp.diag(jnp.linalg.pinv(slope.T @ slope, hermitian=True)))


def noise_of(measured, smooth) -> np.ndarray:
    """The noise of every column of states: what smoothing took away, infinite where nothing was measured."""
    gone = np.asarray(measured) - np.asarray(smooth)
    there = ~np.isnan(gone)
    squares = np.sum(np.where(there, gone, 0.0) ** 2, axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.where(there.any(axis=0), np.sqrt(squares), np.inf)
