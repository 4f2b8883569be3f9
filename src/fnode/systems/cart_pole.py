"""A pole hinged to a cart, free and with a force on the cart."""

import math
from typing import ClassVar

import jax.numpy as jnp

from fnode.systems._base import AbstractSystem, Parameter, Protocol
from fnode.trajectory import Column, Columns

COORDINATES = (Column("x", "m"), Column("theta", "rad", angle=True))
START = Protocol(q=(1.0, math.pi / 6), v=(0.0, 0.0), train=200, test=50, integrator="midpoint")


class AbstractCartPole(AbstractSystem):
    """The angle is measured from upright; the pole is a point mass at its end.

    The motion from the paper's start swings all the way round, beyond the +-pi/2 its text speaks of.
    """

    cart: Parameter = 1.0
    pole: Parameter = 1.0
    length: Parameter = 0.5
    gravity: Parameter = 9.81

    def mass_matrix(self, q):
        coupling = self.pole * self.length * jnp.cos(q[1])
        return jnp.array([[self.cart + self.pole, coupling], [coupling, self.pole * self.length**2]])

    def acceleration(self, t, x, u=None):
        lever = self.pole * self.length * jnp.sin(x.q[1])
        inertial = jnp.array([lever * x.v[1] ** 2, lever * self.gravity])
        return jnp.linalg.solve(self.mass_matrix(x.q), inertial + self.force(x.q, x.v, u))

    def kinetic(self, q, v):
        return 0.5 * v @ self.mass_matrix(q) @ v

    def potential(self, q):
        return self.pole * self.gravity * self.length * jnp.cos(q[1])


class CartPole(AbstractCartPole):
    """The free cart-pole of the paper's comparison."""

    columns: ClassVar[Columns] = Columns(COORDINATES)
    protocol: ClassVar[Protocol] = START

    @property
    def conservative(self):
        return True

    def force(self, q, v, u=None):
        return jnp.zeros_like(v)


class ForcedCartPole(AbstractCartPole):
    """The cart-pole under a horizontal force `u` on the cart.

    Unless another signal is given the force is a sum of three sines, 8 N at most, whose frequencies (0.3, 0.7 and
    1.9 Hz) do not repeat within the experiment.
    """

    columns: ClassVar[Columns] = Columns(COORDINATES, inputs=(Column("u", "N"),))
    protocol: ClassVar[Protocol] = START

    @property
    def conservative(self):
        return False

    def force(self, q, v, u=None):
        push = 0.0 if u is None else u[0]
        return jnp.array([push, 0.0])

    def control(self, parameters):
        return excitation


def excitation(t):
    """The default force on the cart."""
    return jnp.array(
        [4 * jnp.sin(0.6 * jnp.pi * t) + 2.5 * jnp.sin(1.4 * jnp.pi * t) + 1.5 * jnp.sin(3.8 * jnp.pi * t)]
    )
