"""A mechanism in its independent coordinates alone, where all others follow from them in closed form."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fnode.errors import InputError
from fnode.field import AbstractAcceleration
from fnode.mechanisms.mechanism import Mechanism
from fnode.trajectory import State


class Minimal(AbstractAcceleration):
    """The motion of a mechanism whose `pose` gives all coordinates from the independent ones.

    Constraint forces do no work along such a motion, so no multiplier has to be found: with `T` the derivative of the
    pose, `T' M T a = T' (F - M T. v)`. Friction needs the multipliers; a mechanism with friction is refused.
    """

    mechanism: Mechanism
    pose: Callable

    def __check_init__(self):
        if self.mechanism.friction:
            joints = ", ".join(f"'{friction.joint}'" for friction in self.mechanism.friction)
            raise InputError(
                f"minimal coordinates of a mechanism with friction on {joints}: friction needs the constraint forces; "
                "use the mechanism itself"
            )

    def full(self, x: State) -> State:
        """All coordinates and velocities."""
        return State(*jax.jvp(self.pose, (x.q,), (x.v,)))

    def acceleration(self, t, x, u=None):
        # At zero acceleration the pose still accelerates by what the velocities turn: `T. v`.
        full, turning = jax.jvp(lambda q: self.full(State(q, x.v)), (x.q,), (x.v,))
        tangents, mass = jax.jacfwd(self.pose)(x.q), self.mechanism.mass
        force = tangents.T @ (self.mechanism.applied(t, full, u) - mass * turning.v)
        inertia = tangents.T @ (mass[:, None] * tangents)
        # One freedom is the usual case, and a division far cheaper than a factorisation.
        return force / inertia[0] if force.size == 1 else jnp.linalg.solve(inertia, force)
