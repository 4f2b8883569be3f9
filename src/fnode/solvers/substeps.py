"""Several steps from one sample to the next, where the samples are too far apart for one."""

import equinox as eqx
import jax
import jax.numpy as jnp

from fnode.field import AbstractField
from fnode.solvers._base import AbstractFixedStep, AbstractSolver
from fnode.trajectory import State

MOST = 32


class Substeps(AbstractFixedStep):
    """Each interval in `count` equal steps of another scheme."""

    solver: AbstractFixedStep
    count: int = eqx.field(static=True)

    def step(self, field, t, x, dt, control):
        h = dt / self.count
        return jax.lax.fori_loop(0, self.count, lambda k, x: self.solver.step(field, t + k * h, x, h, control), x)


def refined(solver: AbstractSolver, count: int) -> AbstractSolver:
    """The solver with that many steps per interval; those that control their error need no more."""
    return Substeps(solver, count) if count > 1 and isinstance(solver, AbstractFixedStep) else solver


def enough_substeps(
    field: AbstractField, solver: AbstractSolver, t, x: State, u, rates: State, dt, tolerance: float
) -> int:
    """The fewest steps per interval `dt` after which twice as many change little, by powers of two up to 32.

    Seen from many states (`t`, `x`, inputs `u` and the field's `rates` there, with a leading axis), the change per
    time, relative to the spread of the rates, is at most `tolerance` in the root mean square.
    """
    if not isinstance(solver, AbstractFixedStep):
        return 1
    count = 1
    while count < MOST and not float(_change(field, solver, t, x, u, rates, dt, jnp.array(count))) <= tolerance:
        count *= 2
    return count


@eqx.filter_jit
def _change(field, solver: AbstractFixedStep, t, x, u, rates, dt, count):
    def one(t, x, u):
        def after(count):
            h = dt / count
            return jax.lax.fori_loop(0, count, lambda k, x: solver.step(field, t + k * h, x, h, lambda _: u), x)

        reached = jax.lax.map(after, jnp.array([count, 2 * count]))
        return jax.tree.map(lambda ends: (ends[1] - ends[0]) / dt, reached)

    change = jax.vmap(one, in_axes=(0, 0, None if u is None else 0))(t, x, u)
    relative = jax.tree.map(lambda c, r: jnp.mean((c / jnp.maximum(jnp.std(r, axis=0), 1e-12)) ** 2), change, rates)
    return jnp.sqrt(jnp.max(jnp.stack(jax.tree.leaves(relative))))
