"""Three masses in a row, two decades apart in weight."""

from typing import ClassVar

import jax.numpy as jnp

from fnode.systems._base import AbstractMechanical, Parameter, Protocol, linear_motion
from fnode.trajectory import Column, Columns


class TripleMassSpringDamper(AbstractMechanical):
    """A chain from the ground: spring and damper `i` join mass `i` to the one before it (the first to the ground)."""

    masses: tuple[Parameter, Parameter, Parameter] = (100.0, 10.0, 1.0)
    stiffnesses: tuple[Parameter, Parameter, Parameter] = (50.0, 50.0, 50.0)
    dampings: tuple[Parameter, Parameter, Parameter] = (2.0, 2.0, 2.0)

    columns: ClassVar[Columns] = Columns(tuple(Column(f"x{i}", "m") for i in (1, 2, 3)))
    protocol: ClassVar[Protocol] = Protocol(q=(1.0, 2.0, 3.0), v=(0.0, 0.0, 0.0), train=300, test=100)

    def acceleration(self, t, x, u=None):
        pull = jnp.array(self.stiffnesses) * _stretch(x.q) + jnp.array(self.dampings) * _stretch(x.v)
        return (jnp.append(pull[1:], 0.0) - pull) / jnp.array(self.masses)

    def kinetic(self, q, v):
        return 0.5 * jnp.sum(jnp.array(self.masses) * v**2)

    def potential(self, q):
        return 0.5 * jnp.sum(jnp.array(self.stiffnesses) * _stretch(q) ** 2)

    def force(self, q, v, u=None):
        drag = jnp.array(self.dampings) * _stretch(v)
        return jnp.append(drag[1:], 0.0) - drag

    @property
    def conservative(self):
        return not any(self.dampings)

    def exact(self, x0, ts):
        return linear_motion(self, x0, ts)


def _stretch(q):
    """How much each spring of the chain is longer than at rest."""
    return jnp.diff(q, prepend=0.0)
