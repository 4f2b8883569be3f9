"""Rigid bodies in the plane."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

GROUND = "ground"
Point = tuple[float | Array, float | Array]
Triple = tuple[float | Array, float | Array, float | Array]


class Body(eqx.Module):
    """A rigid body: its coordinates are the place `x, y` of its centre of mass and its angle `theta`.

    `pose` and `rate` are where a simulation starts; they need to obey the joints only roughly.
    """

    name: str = eqx.field(static=True)
    mass: float | Array
    inertia: float | Array
    pose: Triple = (0.0, 0.0, 0.0)
    rate: Triple = (0.0, 0.0, 0.0)


def rotate(angle, vector) -> Float[Array, "2"]:
    """A vector given in a frame that is turned by `angle`, in the directions of the ground."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])


def place(pose: Float[Array, "3"], point) -> Float[Array, "2"]:
    """Where a point of a body is; `point` is measured from the centre of mass in the body's own directions."""
    return pose[:2] + rotate(pose[2], point)


def unit(axis) -> Float[Array, "2"]:
    """The direction of an axis."""
    vector = jnp.stack([jnp.asarray(part, float) for part in axis])
    return vector / jnp.sqrt(vector @ vector)
