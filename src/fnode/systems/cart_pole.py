"""A pole hinged to a cart, free and with a force on the cart."""

import math
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.signals import AbstractSignal
from fnode.systems._base import AbstractMechanical, Case, Parameter, Protocol
from fnode.trajectory import Column, Columns

COORDINATES = (Column("x", "m"), Column("theta", "rad", angle=True))
START = Protocol(q=(1.0, math.pi / 6), v=(0.0, 0.0), train=200, test=50, integrator="midpoint")


class AbstractCartPole(AbstractMechanical):
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

    The experiment is meant for control: short motions, every one under a multisine of its own. The first starts where
    the paper's does; of the others half start near upright and are pushed gently, to stay where a controller works, and
    half start anywhere on the circle, where a swing-up leads through. Starts and phases follow Kronecker's sequence,
    which fills a box evenly without being random.
    """

    columns: ClassVar[Columns] = Columns(COORDINATES, inputs=(Column("u", "N"),))
    protocol: ClassVar[Protocol] = Protocol(q=START.q, v=START.v, train=75, test=25, integrator="midpoint")

    @property
    def conservative(self):
        return False

    @property
    def cases(self):
        learned, held = (self.protocol.train, self.protocol.test), (0, self.protocol.train)
        first = Case("0", *learned, (STRONG, *(0.0 for _ in FREQUENCIES)))
        return (first, *(excited(k, *(learned if k < LEARNED else held)) for k in range(1, LEARNED + HELD_OUT)))

    def force(self, q, v, u=None):
        push = 0.0 if u is None else u[0]
        return jnp.array([push, 0.0])

    def control(self, parameters):
        amplitude, *phases = parameters
        return Multisine(jnp.asarray(amplitude), jnp.asarray(phases))


LEARNED, HELD_OUT = 40, 8  # motions
FREQUENCIES = (0.7, 1.3, 2.9)  # Hz: no common period within a motion
GENTLE, STRONG = 3.0, 8.0  # N, of each sine
NEAR_UPRIGHT = (1.0, 0.2, 1.0, 0.5)  # half-widths of the box of starts: x, theta, and their rates
ANYWHERE = (1.0, math.pi, 3.0, 9.0)


def excited(number: int, train: int, test: int) -> Case:
    """One motion of the experiment: even numbers start near upright, odd ones anywhere."""
    box, amplitude = (NEAR_UPRIGHT, GENTLE) if number % 2 == 0 else (ANYWHERE, STRONG)
    places = [math.modf(number * math.sqrt(prime))[0] for prime in (2, 3, 5, 7, 11, 13, 17)]
    start = tuple(width * (2 * place - 1) for width, place in zip(box, places[:4], strict=True))
    return Case(str(number), train, test, (amplitude, *(2 * math.pi * place for place in places[4:])), start)


class Multisine(AbstractSignal):
    """A force on the cart: sines of one amplitude and different frequencies."""

    amplitude: Float[Array, ""]
    phases: Float[Array, " sines"]

    def __call__(self, t):
        return self.amplitude * jnp.sum(jnp.sin(2 * jnp.pi * jnp.array(FREQUENCIES) * t + self.phases), keepdims=True)
