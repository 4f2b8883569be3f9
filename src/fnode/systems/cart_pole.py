"""A pole hinged to a cart, free and with a force on the cart."""

import math
from typing import ClassVar

import jax.numpy as jnp

from fnode.systems._base import AbstractSystem, Protocol
from fnode.trajectory import Column, Columns

COORDINATES = (Column("x", "m"), Column("theta", "rad", angle=True))
START = Protocol(q=(1.0, math.pi / 6), v=(0.0, 0.0), train=200, test=50, integrator="midpoint")


class AbstractCartPole(AbstractSystem):
    """The angle is measured from upright; the pole is a point mass at its end.

    The motion from the paper's start swings all the way round, beyond the +-pi/2 its text speaks of.
    """

    cart: float = 1.0
    pole: float = 1.0
    length: float = 0.5
    gravity: float = 9.81

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
    conservative: ClassVar[bool] = True

    def force(self, q, v, u=None):
        return jnp.zeros_like(v)


class ForcedCartPole(AbstractCartPole):
    """The cart-pole under a horizontal force `u` on the cart."""

    columns: ClassVar[Columns] = Columns(COORDINATES, inputs=(Column("u", "N"),))
    protocol: ClassVar[Protocol] = START
    conservative: ClassVar[bool] = False

    def force(self, q, v, u=None):
        push = 0.0 if u is None else u[0]
        return jnp.array([push, 0.0])
