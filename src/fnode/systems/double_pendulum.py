"""Two point masses on two massless rods: the classic chaotic mechanism."""

import math
from typing import ClassVar

import jax.numpy as jnp

from fnode.systems._base import AbstractMechanical, Parameter, Protocol
from fnode.trajectory import Column, Columns


class DoublePendulum(AbstractMechanical):
    """Both angles are measured from hanging down.

    `joint_friction` adds a torque `-joint_friction * tanh(3 w)` at each joint, where `w` is the rate of that joint:
    a force outside every library of closed forms.
    """

    mass1: Parameter = 1.0
    mass2: Parameter = 1.0
    length1: Parameter = 1.0
    length2: Parameter = 1.0
    gravity: Parameter = 9.81
    joint_friction: Parameter = 0.0

    columns: ClassVar[Columns] = Columns((Column("theta1", "rad", angle=True), Column("theta2", "rad", angle=True)))
    protocol: ClassVar[Protocol] = Protocol(q=(3 * math.pi / 7, 3 * math.pi / 4), v=(0.0, 0.0), train=300, test=100)

    def mass_matrix(self, q):
        coupling = self.mass2 * self.length1 * self.length2 * jnp.cos(q[0] - q[1])
        total = self.mass1 + self.mass2
        return jnp.array([[total * self.length1**2, coupling], [coupling, self.mass2 * self.length2**2]])

    def acceleration(self, t, x, u=None):
        lever = self.mass2 * self.length1 * self.length2 * jnp.sin(x.q[0] - x.q[1])
        weight = jnp.array([(self.mass1 + self.mass2) * self.length1, self.mass2 * self.length2]) * self.gravity
        swing = jnp.array([-lever * x.v[1] ** 2, lever * x.v[0] ** 2])
        return jnp.linalg.solve(self.mass_matrix(x.q), swing - weight * jnp.sin(x.q) + self.force(x.q, x.v, u))

    def kinetic(self, q, v):
        return 0.5 * v @ self.mass_matrix(q) @ v

    def potential(self, q):
        height1 = -self.length1 * jnp.cos(q[0])
        height2 = height1 - self.length2 * jnp.cos(q[1])
        return self.gravity * (self.mass1 * height1 + self.mass2 * height2)

    def force(self, q, v, u=None):
        torque = -self.joint_friction * jnp.tanh(3 * jnp.diff(v, prepend=0.0))
        return torque - jnp.append(torque[1:], 0.0)

    @property
    def conservative(self):
        return bool(self.joint_friction == 0)
