"""Accelerations and constraint forces of a constrained mechanism: the paper's Eq. (1)."""

from collections.abc import Mapping, Sequence

import jax
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


def solve_sparse_kkt(
    mass: Float[Array, " n"],
    rows: Sequence[Mapping[int, Array]],
    force: Float[Array, "n *k"],
    gamma: Float[Array, "m *k"],
):
    """The same for a diagonal mass matrix without zeros and independent constraints, each given by its few derivatives.

    `rows[i][j]` is the derivative of constraint `i` along coordinate `j`. The Schur complement is built and factorised
    number by number, and what is zero by its place never occurs: a compiler runs this plain arithmetic for a thousand
    mechanisms side by side, where LAPACK takes one small matrix after the other.
    """
    m, n = len(rows), mass.shape[0]
    if m == 0:
        return (force.T / mass).T, gamma
    inverse = 1 / mass
    weighted = [{j: value * inverse[j] for j, value in row.items()} for row in rows]
    # Cholesky factor by rows. Its diagonal is kept as reciprocals: one root and no division for each constraint.
    factor: list[dict[int, Array]] = []
    for i in range(m):
        factor.append({})
        for k in range(i + 1):
            terms = [value * rows[k][j] for j, value in weighted[i].items() if j in rows[k]]
            terms += [-value * factor[k][p] for p, value in factor[i].items() if p in factor[k]]
            if terms:
                factor[i][k] = sum(terms) * factor[k][k] if k < i else jax.lax.rsqrt(sum(terms))
    multipliers: list[Array] = []
    for i in range(m):
        rest = sum(value * force[j] for j, value in weighted[i].items()) - gamma[i]
        rest = rest - sum(value * multipliers[k] for k, value in factor[i].items() if k < i)
        multipliers.append(rest * factor[i][i])
    for i in reversed(range(m)):
        rest = multipliers[i] - sum(factor[k][i] * multipliers[k] for k in range(i + 1, m) if i in factor[k])
        multipliers[i] = rest * factor[i][i]
    held = [
        sum(row[j] * multiplier for row, multiplier in zip(rows, multipliers, strict=True) if j in row)
        for j in range(n)
    ]
    return jnp.stack([(force[j] - held[j]) * inverse[j] for j in range(n)]), jnp.stack(multipliers)
