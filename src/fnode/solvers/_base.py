"""What every integrator offers, and the loop that all fixed-step ones share."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fnode.field import AbstractField
from fnode.trajectory import State


class AbstractSolver(eqx.Module):
    """A way to integrate a field over given times."""

    @abc.abstractmethod
    def solve(self, field: AbstractField, x0: State, ts: Float[Array, " samples"], control) -> State:
        """The states at all `ts`, beginning with `x0` at `ts[0]`; `control` is a function of time."""


class AbstractFixedStep(AbstractSolver):
    """One step per interval of `ts`, all of them in one compiled loop."""

    @abc.abstractmethod
    def step(self, field: AbstractField, t, x: State, dt, control) -> State:
        """The state at `t + dt`."""

    def solve(self, field, x0, ts, control):
        def advance(x, interval):
            t, dt = interval
            following = self.step(field, t, x, dt, control)
            return following, following

        _, later = jax.lax.scan(advance, x0, (ts[:-1], jnp.diff(ts)))
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), x0, later)


def advance(x: PyTree, dt, rate: PyTree) -> PyTree:
    """`x + dt * rate`."""
    return jax.tree.map(lambda value, slope: value + dt * slope, x, rate)
