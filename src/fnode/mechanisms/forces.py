"""Springs, dampers, forces and torques: each acts along one measure of how two bodies lie to each other."""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.mechanisms.bodies import Point, place, unit
from fnode.mechanisms.joints import ORIGIN


class AbstractForce(eqx.Module):
    """A force between two bodies along a measure `s` of their poses: the generalised force is `f ds/dq`."""

    bodies: eqx.AbstractVar[tuple[str, str]]
    input: eqx.AbstractVar[str | None]

    @abc.abstractmethod
    def measure(self, first: Float[Array, "3"], second: Float[Array, "3"]) -> Float[Array, ""]:
        """What the force acts on: a length, a displacement or an angle."""

    @abc.abstractmethod
    def strength(self, s, rate, inputs: Mapping[str | None, Array]) -> float | Array:
        """The force `f` in the direction in which the measure grows."""

    @abc.abstractmethod
    def energy(self, s) -> Array:
        """What the force stores."""

    @property
    @abc.abstractmethod
    def conservative(self) -> bool:
        """Whether it gives back all it takes."""


class AbstractSpring(AbstractForce):
    """A spring and a damper side by side, `f = -stiffness (s - rest) - damping s'`; either may be zero."""

    stiffness: eqx.AbstractVar[float | Array]
    rest: eqx.AbstractVar[float | Array]
    damping: eqx.AbstractVar[float | Array]

    def strength(self, s, rate, inputs):
        return -self.stiffness * (s - self.rest) - self.damping * rate

    def energy(self, s):
        return self.stiffness * (s - self.rest) ** 2 / 2

    @property
    def conservative(self):
        return not jnp.any(jnp.asarray(self.damping))


class Spring(AbstractSpring):
    """Acts on the distance of two points or, with an `axis` (in ground directions), on the displacement along it.

    Without an axis the points must not meet: their distance has no direction there.
    """

    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    stiffness: float | Array = 0.0
    rest: float | Array = 0.0
    damping: float | Array = 0.0
    axis: Point | None = None
    input: str | None = eqx.field(static=True, default=None, init=False)

    def measure(self, first, second):
        offset = place(second, self.points[1]) - place(first, self.points[0])
        return jnp.sqrt(offset @ offset) if self.axis is None else unit(self.axis) @ offset


class Torsion(AbstractSpring):
    """Acts on the angle from the first body to the second."""

    bodies: tuple[str, str] = eqx.field(static=True)
    stiffness: float | Array = 0.0
    rest: float | Array = 0.0
    damping: float | Array = 0.0
    input: str | None = eqx.field(static=True, default=None, init=False)

    def measure(self, first, second):
        return second[2] - first[2]


class AbstractDrive(AbstractForce):
    """A force of given `value`, or of the value that an `input` signal has."""

    value: eqx.AbstractVar[float | Array]

    def strength(self, s, rate, inputs):
        return inputs.get(self.input, self.value)

    def energy(self, s):
        return jnp.zeros_like(s)

    @property
    def conservative(self):
        return self.input is None and not jnp.any(jnp.asarray(self.value))


class Force(AbstractDrive):
    """Pushes a point of the second body from a point of the first along `axis` (in ground directions)."""

    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    axis: Point = (1.0, 0.0)
    value: float | Array = 0.0
    input: str | None = eqx.field(static=True, default=None)

    def measure(self, first, second):
        return unit(self.axis) @ (place(second, self.points[1]) - place(first, self.points[0]))


class Torque(AbstractDrive):
    """Turns the second body against the first."""

    bodies: tuple[str, str] = eqx.field(static=True)
    value: float | Array = 0.0
    input: str | None = eqx.field(static=True, default=None)

    def measure(self, first, second):
        return second[2] - first[2]


FORCES: dict[str, type[AbstractForce]] = {
    "spring": Spring,
    "damper": Spring,
    "torsional_spring": Torsion,
    "torsional_damper": Torsion,
    "force": Force,
    "torque": Torque,
}
