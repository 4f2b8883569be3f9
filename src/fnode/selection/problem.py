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
from fnode.models import Load
from fnode.selection.folds import Fold, Part, Trial, folds
from fnode.solvers import AbstractSolver, refined, rollout
from fnode.training import Labelled
from fnode.trajectory import Columns

MOST_SAMPLES = 4000  # for a fit: neighbours tell the same, so more are thinned out
GOOD = 1e-6  # relative squared error of a rollout at which less structured candidates are not worth their risk
QUIET = 0.03  # of the whole spread: a window that moves less is not asked to be foretold any better
STEEP = 32  # steps from one sample to the next where friction turns over at a small rate
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

    def judge(self, fields: Sequence[Sequence[AbstractField]]) -> list[tuple[float, ...]]:
        """The errors of several candidates: for each fold the fields fitted to it, all of one structure."""
        solver = refined(self.solver, STEEP if steep(fields[0][0]) else 1)
        pairs = [(fitted, trial) for fold, fitted in zip(self.folds, fields, strict=True) for trial in fold.trials]
        shapes = [eqx.filter_eval_shape(lambda trial=trial: trial) for _, trial in pairs]  # and what is no array
        together = len(pairs) if eqx.tree_equal(*shapes) is True else 1  # windows of one length go at once
        errors = []
        for k in range(0, len(pairs), together):
            fitted = stacked([stacked(each) for each, _ in pairs[k : k + together]])
            trials = stacked([trial for _, trial in pairs[k : k + together]])
            errors.append(np.asarray(_errors(fitted, trials, solver, self.spread)))
        found = np.concatenate(errors)
        return [tuple(float(e) if np.isfinite(e) else math.inf for e in own) for own in found.T]

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


def steep(field: AbstractField) -> bool:
    """Whether friction turns over at so small a rate that one step per sample cannot follow."""
    return any(isinstance(node, Load) for node in jax.tree.leaves(field, is_leaf=lambda node: isinstance(node, Load)))


def stacked(trees: Sequence):
    """Values of one structure, their arrays along a new leading axis."""
    return jax.tree.map(  # by numpy: programs for every number of them would have to be compiled
        lambda *leaves: jnp.asarray(np.stack(leaves)) if eqx.is_array(leaves[0]) else leaves[0], *trees
    )


@eqx.filter_jit
def _errors(fields, trials: Trial, solver: AbstractSolver, spread):
    """The error of every field, by trial and candidate."""

    def one(field, trial):
        unit = jnp.var(flat(trial.x), axis=0) + (QUIET * spread) ** 2
        start = jax.tree.map(lambda leaf: leaf[0], trial.x)
        x = rollout(field, start, trial.ts, control=trial.control, solver=solver)
        return jnp.mean((flat(x) - flat(trial.x)) ** 2 / unit)

    return eqx.filter_vmap(eqx.filter_vmap(one, in_axes=(eqx.if_array(0), None)))(fields, trials)
