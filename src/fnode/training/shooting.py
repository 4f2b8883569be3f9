"""Multiple shooting: a field, and the start of every window, so that rollouts meet the measured samples."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.field import AbstractField
from fnode.metrics import flat
from fnode.signals import LinearHold
from fnode.solvers import AbstractSolver, rollout
from fnode.trajectory import State


class Shot(eqx.Module):
    """A stretch of measured samples, its inputs, and the unit of each column's error; or many, stacked.

    A column of infinite unit does not count, and neither does a sample that is not a number.
    """

    ts: Float[Array, "*windows samples"]
    states: Float[Array, "*windows samples state"]
    u: Float[Array, "*windows samples external"] | None
    unit: Float[Array, "*windows state"]


class ShootingResidual(eqx.Module):
    """The rollout of one window from its own start, less its samples."""

    solver: AbstractSolver

    def __call__(self, field: AbstractField, start: State, window: Shot) -> Float[Array, " residuals"]:
        control = None if window.u is None else LinearHold(window.ts, window.u)
        x = rollout(field, start, window.ts, control=control, solver=self.solver)
        misses = (flat(x) - window.states) / window.unit
        # A stretch without weight must not count either where its rollout leaves for good.
        counted = jnp.isfinite(window.unit) & ~jnp.isnan(window.states)
        return jnp.where(counted, misses, 0.0).reshape(-1)
