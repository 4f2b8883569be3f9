"""The verb that integrates any field with any solver."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.field import AbstractField
from fnode.solvers._base import AbstractSolver
from fnode.solvers.runge_kutta import RK4
from fnode.trajectory import State


@eqx.filter_jit
def rollout(
    field: AbstractField, x0: State, ts: Float[Array, " samples"], *, control=None, solver: AbstractSolver = RK4
) -> State:
    """The motion of `field` from `x0`, sampled at `ts`; differentiable, and `vmap`-able over starts and fields.

    `control` is a function of time, such as a signal of `fnode.signals`; without one the field gets no inputs.

    >>> from fnode.systems import MassSpring
    >>> from fnode.trajectory import State
    >>> x = rollout(MassSpring(), State(jnp.array([1.0]), jnp.array([0.0])), jnp.linspace(0.0, 1.0, 101))
    >>> bool(jnp.allclose(x.q[-1], jnp.cos(jnp.sqrt(5.0)), atol=1e-6))
    True
    """
    return solver.solve(field, x0, jnp.asarray(ts), control or (lambda t: None))
