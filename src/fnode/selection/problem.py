"""The data of a selection, and the judge of all candidates."""

import dataclasses
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fnode.field import AbstractField
from fnode.metrics import flat
from fnode.selection.folds import Fold, Part, Trial, folds
from fnode.solvers import AbstractSolver, rollout
from fnode.training import Labelled
from fnode.trajectory import Columns

MOST_SAMPLES = 4000  # for a fit: neighbours tell the same, so more are thinned out
GOOD = 1e-6  # relative squared error of a rollout at which less structured candidates are not worth their risk
QUIET = 0.03  # of the whole spread: a window that moves less is not asked to be foretold any better
NOISY = 1e-6  # relative noise above which states are estimated rather than read


class Problem:
    """The data of a selection, cut into folds, and what all candidates share."""

    def __init__(self, columns: Columns, parts: Sequence[Part], solver: AbstractSolver, noise: float):
        self.columns, self.parts, self.solver = columns, parts, solver
        self.shortest = min(len(part.smooth) for part in parts)
        states = np.concatenate([part.smooth.states for part in parts])
        self.spread = jnp.asarray(np.maximum(np.std(states, axis=0), 1e-12))
        self.noisy = noise > NOISY
        self.good = max(GOOD, 1.5 * noise**2)
        whole = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(part.samples for part in parts))
        owner = np.concatenate([np.full(len(part.samples.t), number) for number, part in enumerate(parts)])
        step = math.ceil(len(owner) / MOST_SAMPLES)
        samples = jax.tree.map(lambda leaf: leaf[::step], whole)
        worth = 1 / jnp.maximum(jnp.var(samples.rate, axis=0), 1e-24)
        weight = jnp.broadcast_to(worth, samples.rate.shape)
        self.plain = samples  # weights as the labels give them
        self.samples = dataclasses.replace(
            samples, weight=weight if samples.weight is None else weight * samples.weight
        )
        self.owner = owner[::step]
        self.folds = tuple(folds(parts))
        self.seconds_compile = 0.0

    def judge(self, fields: Sequence[Sequence[AbstractField]]) -> list[tuple[float, ...]]:
        """The errors of several candidates: for each fold the fields fitted to it, all of one structure."""
        errors: list[list[float]] = [[] for _ in fields[0]]
        for fold, fitted in zip(self.folds, fields, strict=True):
            stacked = jax.tree.map(lambda *ls: jnp.stack(ls) if eqx.is_array(ls[0]) else ls[0], *fitted)
            for trial in fold.trials:
                found = np.asarray(_errors(stacked, trial, self.solver, self.spread))
                for own, error in zip(errors, found, strict=True):
                    own.append(float(error) if np.isfinite(error) else math.inf)
        return [tuple(own) for own in errors]

    def used(self, fold: Fold) -> np.ndarray:
        """Which samples a fold leaves for fitting."""
        times = np.asarray(self.samples.t)
        return np.array(
            [fold.allows(number, t, t) for number, t in zip(self.owner.tolist(), times.tolist(), strict=True)]
        )

    def masked(self, fold: Fold) -> Labelled:
        """The samples with no weight outside the fold: the shapes, and so the compiled programs, stay the same."""
        assert self.samples.weight is not None
        return dataclasses.replace(self.samples, weight=self.samples.weight * self.used(fold)[:, None])


@eqx.filter_jit
def _errors(fields, trial: Trial, solver: AbstractSolver, spread):
    unit = jnp.var(flat(trial.x), axis=0) + (QUIET * spread) ** 2

    def one(field):
        start = jax.tree.map(lambda leaf: leaf[0], trial.x)
        x = rollout(field, start, trial.ts, control=trial.control, solver=solver)
        return jnp.mean((flat(x) - flat(trial.x)) ** 2 / unit)

    return eqx.filter_vmap(one)(fields)
