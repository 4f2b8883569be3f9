"""Constraints on positions, and what they demand of velocities and accelerations."""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float


class Holonomic(eqx.Module):
    """Constraints `phi(q) = 0`; their velocity and acceleration forms by autodiff.

    >>> import jax.numpy as jnp
    >>> circle = Holonomic(lambda q: q @ q - 1.0)
    >>> circle.jacobian(jnp.array([1.0, 0.0])).tolist()
    [[2.0, 0.0]]
    """

    phi: Callable

    @classmethod
    def of(cls, phi: "Holonomic | Callable") -> "Holonomic":
        """Constraints from a function of the coordinates; constraints stay what they are."""
        return phi if isinstance(phi, Holonomic) else cls(phi)

    def __call__(self, q: Float[Array, " n"]) -> Float[Array, " m"]:
        """How far the constraints are from being met."""
        return jax.numpy.atleast_1d(self.phi(q))

    def jacobian(self, q: Float[Array, " n"]) -> Float[Array, "m n"]:
        return jax.jacfwd(self.__call__)(q)

    def gamma(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " m"]:
        """Right-hand side of `jacobian(q) @ a = gamma(q, v)`: minus the second derivative along a uniform motion."""

        def rate(q):
            return jax.jvp(self.__call__, (q,), (v,))[1]

        return -jax.jvp(rate, (q,), (v,))[1]

    def residuals(self, q: Float[Array, " n"], v: Float[Array, " n"], a: Float[Array, " n"]):
        """What is left of the constraints at the three levels: position, velocity, acceleration."""
        jacobian = self.jacobian(q)
        return self(q), jacobian @ v, jacobian @ a - self.gamma(q, v)
