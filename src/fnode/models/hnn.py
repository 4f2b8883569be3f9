"""HNN: a learned energy, and the motion that Hamilton's equations make of it (Greydanus et al., 2019)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.field import AbstractField
from fnode.models.scalar import ScalarNetwork
from fnode.models.scaler import Scaler
from fnode.models.small_matrices import solve
from fnode.trajectory import Columns, State


class HNN(AbstractField):
    """`q' = dH/dp`, `p' = -dH/dq` with momenta `p = M v` of a constant mass matrix `M`.

    Data hold velocities, not momenta, so the mass matrix must not depend on the configuration. Its size is never known
    (a motion is the same for `c M` and `c H`): with one coordinate `M = 1` without loss, and `H` is the energy per unit
    mass. With several, `M` is learned along with `H`, as `L L^T` with a positive diagonal of `L`; it begins as one.
    `H` need not be a kinetic energy plus a potential, so `q'` is only as close to `v` as training brought it, and
    the field is no field of accelerations: symplectic schemes of this library do not apply to it.
    """

    hamiltonian: Callable  # (q, p, parameters) -> energy
    factor: Float[Array, "n n"] | None = None  # below the diagonal as in L; on it, logarithms

    @classmethod
    def untrained(
        cls, columns: Columns, *, width: int, depth: int, features: Scaler | None = None, key: PRNGKeyArray
    ) -> "HNN":
        """A model with fresh weights; without a scaler the network sees plain units."""
        n = len(columns.coordinates)
        inputs = 2 * n + len(columns.external)
        energy = ScalarNetwork.untrained(inputs, width=width, depth=depth, features=features, key=key)
        return cls(energy, jnp.zeros((n, n)) if n > 1 else None)

    @classmethod
    def of(cls, hamiltonian: Callable, mass: Float[Array, "n n"]) -> "HNN":
        """The motion of a known energy `hamiltonian(q, p, u)` with a known mass matrix."""
        factor = jnp.linalg.cholesky(mass)
        return cls(hamiltonian, jnp.tril(factor, -1) + jnp.diag(jnp.log(jnp.diagonal(factor))))

    def mass(self, n: int) -> Float[Array, "n n"]:
        """The constant mass matrix, up to its unknown size."""
        if self.factor is None:
            return jnp.eye(n)
        factor = jnp.tril(self.factor, -1) + jnp.diag(jnp.exp(jnp.diagonal(self.factor)))
        return factor @ factor.T

    def __call__(self, t, x, u=None):
        if self.factor is None:
            pull, q_rate = jax.grad(self.hamiltonian, (0, 1))(x.q, x.v, u)
            return State(q_rate, -pull)
        mass = self.mass(x.q.shape[0]).astype(x.v.dtype)
        pull, q_rate = jax.grad(self.hamiltonian, (0, 1))(x.q, mass @ x.v, u)
        return State(q_rate, -solve(mass, pull))
