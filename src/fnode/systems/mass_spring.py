"""One mass on a spring, with and without a damper."""

from typing import ClassVar

import jax.numpy as jnp

from fnode.systems._base import AbstractMechanical, Parameter, Protocol, linear_motion
from fnode.trajectory import Column, Columns

DISPLACEMENT = Columns((Column("x", "m"),))


class MassSpring(AbstractMechanical):
    """An undamped oscillator, `m x'' = -k x`: the paper's test of energy over a long time."""

    mass: Parameter = 10.0
    stiffness: Parameter = 50.0

    columns: ClassVar[Columns] = DISPLACEMENT
    protocol: ClassVar[Protocol] = Protocol(q=(1.0,), v=(0.0,), train=300, test=2700, integrator="exact")

    @property
    def conservative(self):
        return True

    def acceleration(self, t, x, u=None):
        return -self.stiffness / self.mass * x.q

    def kinetic(self, q, v):
        return 0.5 * self.mass * jnp.sum(v**2)

    def potential(self, q):
        return 0.5 * self.stiffness * jnp.sum(q**2)

    def force(self, q, v, u=None):
        return jnp.zeros_like(v)

    def exact(self, x0, ts):
        return linear_motion(self, x0, ts)


class MassSpringDamper(AbstractMechanical):
    """A damped oscillator, `m x'' = -k x - d x'`."""

    mass: Parameter = 10.0
    stiffness: Parameter = 50.0
    damping: Parameter = 2.0

    columns: ClassVar[Columns] = DISPLACEMENT
    protocol: ClassVar[Protocol] = Protocol(q=(1.0,), v=(0.0,), train=300, test=100)

    def acceleration(self, t, x, u=None):
        return -(self.stiffness * x.q + self.damping * x.v) / self.mass

    def kinetic(self, q, v):
        return 0.5 * self.mass * jnp.sum(v**2)

    def potential(self, q):
        return 0.5 * self.stiffness * jnp.sum(q**2)

    def force(self, q, v, u=None):
        return -self.damping * v

    @property
    def conservative(self):
        return bool(self.damping == 0)

    def exact(self, x0, ts):
        return linear_motion(self, x0, ts)
