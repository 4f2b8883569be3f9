"""LNN: a learned Lagrangian, and the motion that the Euler-Lagrange equation makes of it (Cranmer et al., 2020)."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.scalar import ScalarNetwork
from fnode.models.scaler import Scaler
from fnode.models.small_matrices import solve
from fnode.trajectory import Columns

SINGULAR = 1e-4  # the size of an inertia, in units of the free factor of a Lagrangian, that counts as none


class FreeLagrangian(eqx.Module):
    """`L = v.v / 2 + network(q, v)`.

    A motion is the same for `L` and `c L`: the first term fixes that factor and gives a fresh network an inertia that
    can be inverted. The network may take it back where the data say so.
    """

    network: ScalarNetwork

    def __call__(self, q, v, u=None):
        return 0.5 * v @ v + self.network(q, v, u)


class LNN(AbstractAcceleration):
    """`d/dt dL/dv = dL/dq` solved for the acceleration: `L_vv a = L_q - L_vq v`.

    `L_vv` of a network can pass through zero while it is trained; `a = (L_vv^2 + e)^-1 L_vv (...)` with a small `e` is
    the solution wherever there is one, and bounded where there is none.
    """

    lagrangian: Callable  # (q, v, parameters) -> kinetic minus potential energy

    @classmethod
    def untrained(
        cls, columns: Columns, *, width: int, depth: int, features: Scaler | None = None, key: PRNGKeyArray
    ) -> "LNN":
        """A model with fresh weights; without a scaler the network sees plain units."""
        inputs = 2 * len(columns.coordinates) + len(columns.external)
        network = ScalarNetwork.untrained(inputs, width=width, depth=depth, features=features, key=key)
        return cls(FreeLagrangian(network))

    def acceleration(self, t, x, u=None):
        def momentum(q, v):
            return jax.grad(self.lagrangian, 1)(q, v, u)

        inertia = jax.jacfwd(momentum, 1)(x.q, x.v)
        slope = jax.grad(self.lagrangian, 0)(x.q, x.v, u)
        carried = jax.jvp(lambda q: momentum(q, x.v), (x.q,), (x.v,))[1]
        square = inertia @ inertia + SINGULAR**2 * jnp.eye(x.q.shape[0], dtype=inertia.dtype)
        return solve(square, inertia @ (slope - carried))
