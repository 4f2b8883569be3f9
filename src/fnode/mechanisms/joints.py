"""What joints forbid: each gives residuals that vanish as long as it holds."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.mechanisms.bodies import Point, place, rotate, unit

ORIGIN: tuple[Point, Point] = ((0.0, 0.0), (0.0, 0.0))


class AbstractJoint(eqx.Module):
    """A joint between two bodies (or a body and the ground), at one point of each in its own frame.

    Residuals are lengths or angles, so multipliers are forces in newtons or torques in newton-metres.
    """

    name: eqx.AbstractVar[str]
    bodies: eqx.AbstractVar[tuple[str, str]]
    rows: ClassVar[int]

    @abc.abstractmethod
    def residual(self, first: Float[Array, "3"], second: Float[Array, "3"]) -> Float[Array, " rows"]:
        """Zero when the poses of the two bodies fit together."""


class AbstractSliding(AbstractJoint):
    """A joint whose surfaces slide on each other under the force between them, so that it can have friction."""

    @abc.abstractmethod
    def slip(self, first: Float[Array, "3"], second: Float[Array, "3"], radius) -> Float[Array, ""]:
        """How far the surfaces have slid."""

    @abc.abstractmethod
    def pressing(self, multipliers: Float[Array, " rows"]) -> Float[Array, ""]:
        """The force that presses the surfaces together."""


class Revolute(AbstractSliding):
    """A pin: two points coincide, angles are free. Its surfaces slide on the pin's radius."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    rows: ClassVar[int] = 2

    def residual(self, first, second):
        return place(second, self.points[1]) - place(first, self.points[0])

    def slip(self, first, second, radius):
        return radius * (second[2] - first[2])

    def pressing(self, multipliers):
        squared = multipliers @ multipliers
        return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)


class PointOnLine(AbstractSliding):
    """A pin in a slot: a point of the second body stays on a line of the first, through its point along `axis`."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    axis: Point = (1.0, 0.0)
    rows: ClassVar[int] = 1

    def residual(self, first, second):
        offset = place(second, self.points[1]) - place(first, self.points[0])
        along = rotate(first[2], unit(self.axis))
        return (along[0] * offset[1] - along[1] * offset[0])[None]

    def slip(self, first, second, radius):
        offset = place(second, self.points[1]) - place(first, self.points[0])
        return rotate(first[2], unit(self.axis)) @ offset

    def pressing(self, multipliers):
        return jnp.abs(multipliers[0])


class Prismatic(AbstractSliding):
    """A slide: as a point on a line, and the second body keeps the `angle` it has to the first.

    Friction uses the force across the slide; the moment that keeps the angle does not press.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    axis: Point = (1.0, 0.0)
    angle: float | Array = 0.0
    rows: ClassVar[int] = 2

    @property
    def _line(self):
        return PointOnLine(self.name, self.bodies, self.points, self.axis)

    def residual(self, first, second):
        turned = second[2] - first[2] - self.angle
        return jnp.append(self._line.residual(first, second), turned)

    def slip(self, first, second, radius):
        return self._line.slip(first, second, radius)

    def pressing(self, multipliers):
        return self._line.pressing(multipliers)


class Fixed(AbstractJoint):
    """A weld: two points coincide and the second body keeps the `angle` it has to the first."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    angle: float | Array = 0.0
    rows: ClassVar[int] = 3

    def residual(self, first, second):
        offset = place(second, self.points[1]) - place(first, self.points[0])
        return jnp.append(offset, second[2] - first[2] - self.angle)


class Distance(AbstractJoint):
    """A massless rod: two points stay `length` apart."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, str] = eqx.field(static=True)
    points: tuple[Point, Point] = ORIGIN
    length: float | Array = eqx.field(kw_only=True)
    rows: ClassVar[int] = 1

    def residual(self, first, second):
        offset = place(second, self.points[1]) - place(first, self.points[0])
        return (jnp.sqrt(offset @ offset) - self.length)[None]


JOINTS: dict[str, type[AbstractJoint]] = {
    "revolute": Revolute,
    "prismatic": Prismatic,
    "point_on_line": PointOnLine,
    "fixed": Fixed,
    "distance": Distance,
}
