"""Stretches of trajectories as samples, and the losses that compare a model with what came next."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.metrics import flat
from fnode.models import FCNN, LSTM
from fnode.recording import Recording
from fnode.signals import LinearHold
from fnode.solvers import RK4, AbstractFixedStep, AbstractSolver
from fnode.trajectory import Trajectory


def windows(recordings: Sequence[Recording], length: int) -> Trajectory:
    """Every `length + 1` consecutive samples of each training part, along a leading axis; none crosses recordings.

    Times count from each window's first sample, so that steps keep their digits in single precision.
    """
    parts = _training_parts(recordings)
    found = [part for part in parts if len(part) > length]
    if not found:
        longest = max(map(len, parts))
        raise InputError(
            f"got window={length} and training parts of at most {longest} samples: a window needs {length + 1}, "
            f"set window to at most {longest - 1}"
        )
    made = []
    for part in found:
        rows = np.arange(len(part) - length)[:, None] + np.arange(length + 1)
        cut = jax.tree.map(lambda leaf, rows=rows: leaf[rows], part)
        made.append(eqx.tree_at(lambda window: window.ts, cut, cut.ts - cut.ts[:, :1]))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *made)


def instants(recordings: Sequence[Recording]) -> Trajectory:
    """All samples of all training parts."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *_training_parts(recordings))


def _training_parts(recordings: Sequence[Recording]) -> list[Trajectory]:
    return [dataclasses.replace(r.observed, a=None) for r in recordings if r.observed is not None]


def check_even(recordings: Sequence[Recording]) -> None:
    """An error unless all training parts have one time step: what goes from sample to sample knows no other."""
    steps = np.concatenate([np.diff(np.asarray(part.ts)) for part in _training_parts(recordings)])
    if steps.size and np.ptp(steps) > 1e-3 * steps.mean():
        raise InputError(
            f"an lstm needs even samples, got time steps from {steps.min():g} to {steps.max():g} s: resample the data, "
            f"or choose a model of the field such as fnode"
        )


class TrajectoryLoss(eqx.Module):
    """MBD-NODE: the squared error of the states after each step of a window, integrated from its first sample.

    Inputs and parameters are joined by straight lines between the samples.
    """

    solver: AbstractSolver = RK4

    def __call__(self, field: AbstractField, window: Trajectory) -> Float[Array, ""]:
        control = _none if window.u is None else LinearHold(window.ts, window.u)
        if isinstance(self.solver, AbstractFixedStep) and len(window) == 2:  # a loop of one step is not worth its cost
            x = self.solver.step(field, window.ts[0], window.start, window.ts[1] - window.ts[0], control)
            return jnp.mean((flat(x) - window.states[1]) ** 2)
        x = self.solver.solve(field, window.start, window.ts, control)
        return jnp.mean((flat(x)[1:] - window.states[1:]) ** 2)


class NextStateLoss(eqx.Module):
    """LSTM: the squared error of the state after a window, in scaled units."""

    def __call__(self, model: LSTM, window: Trajectory) -> Float[Array, ""]:
        shown = model.shown(window.x, window.u)
        target = shown[-1, : model.bias.shape[0]]
        return jnp.mean((model.following(shown[:-1]) - target) ** 2)


class InstantLoss(eqx.Module):
    """FCNN: the squared error of the state at a time, in the units of the network's output."""

    def __call__(self, model: FCNN, sample: Trajectory) -> Float[Array, ""]:
        return jnp.mean((model.scaled(sample.ts, sample.u) - model.targets.standardise(flat(sample.x))) ** 2)


def _none(t):
    return None
