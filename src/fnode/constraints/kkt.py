"""Accelerations and constraint forces of a constrained mechanism: the paper's Eq. (1)."""

import jax.numpy as jnp
import jax.scipy.linalg
from jaxtyping import Array, Float


def solve_kkt(
    mass, jacobian: Float[Array, "m n"], force: Float[Array, "n *k"], gamma: Float[Array, "m *k"], *, redundant: bool
):
    """The accelerations `a` and multipliers of `M a + J' lambda = F`, `J a = gamma`.

    `mass` is the diagonal of the mass matrix or the whole matrix. A diagonal without zeros and with independent
    constraints is solved through the Schur complement `J M^-1 J'`. In every other case (`redundant` constraints, which
    leave the multipliers undetermined; bodies without mass, which have no `M^-1`) the pseudo-inverse of the whole
    matrix is used: accelerations are unique as long as every massless body is held, and among all multipliers that
    produce them it gives the smallest.
    """
    if mass.ndim == 1 and not redundant:
        weighted = jacobian / mass
        factor = jax.scipy.linalg.cho_factor(weighted @ jacobian.T)
        multipliers = jax.scipy.linalg.cho_solve(factor, weighted @ force - gamma)
        return ((force - jacobian.T @ multipliers).T / mass).T, multipliers
    n, m = jacobian.shape[1], jacobian.shape[0]
    dense = jnp.diag(mass) if mass.ndim == 1 else mass
    matrix = jnp.block([[dense, jacobian.T], [jacobian, jnp.zeros((m, m))]])
    solution = jnp.linalg.pinv(matrix, hermitian=True) @ jnp.concatenate([force, gamma])
    return solution[:n], solution[n:]
