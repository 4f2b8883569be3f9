"""How a state changes: analytic systems and learned models are the same kind of thing."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from fnode.trajectory import State


class AbstractField(eqx.Module):
    """The rate of change of a state at a time, under inputs and parameters `u`."""

    @abc.abstractmethod
    def __call__(self, t, x: State, u: Float[Array, " external"] | None = None) -> State:
        """The time derivatives of `x.q` and `x.v`."""


class AbstractAcceleration(AbstractField):
    """A field whose coordinates move with their own velocities."""

    @abc.abstractmethod
    def acceleration(self, t, x: State, u: Float[Array, " external"] | None = None) -> Float[Array, " coordinates"]:
        """The second time derivative of the coordinates."""

    def __call__(self, t, x, u=None):
        return State(x.v, self.acceleration(t, x, u))
