"""Linear algebra of the few-by-few matrices that mechanisms have."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def symmetric(entries: Float[Array, " pairs"], n: int) -> Float[Array, "n n"]:
    """The symmetric matrix with these entries on and above its diagonal."""
    rows, columns = np.triu_indices(n)
    place = np.zeros((n, n), int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return entries[place]


def solve(matrix: Float[Array, "n n"], right: Float[Array, " n"]) -> Float[Array, " n"]:
    """`matrix^-1 right`, written out where it is small: much faster than a call to the linear algebra library."""
    n = right.shape[0]
    if n == 1:
        return right / matrix[0]
    if n == 2:
        (a, b), (c, d) = matrix
        return jnp.stack([d * right[0] - b * right[1], a * right[1] - c * right[0]]) / (a * d - b * c)
    return jnp.linalg.solve(matrix, right)


def lower(entries: Float[Array, " pairs"], n: int) -> Float[Array, "n n"]:
    """The lower triangular matrix with these entries, row by row."""
    return jnp.zeros((n, n), entries.dtype).at[np.tril_indices(n)].set(entries)


def positive(matrix: Float[Array, "n n"], least: float = 1e-3) -> Float[Array, "n n"]:
    """A positive definite matrix that equals the given symmetric one where that is well positive itself.

    Every eigenvalue `s` becomes `(s + sqrt(s^2 + 4 least^2)) / 2`, smoothly in the matrix.
    """
    unit = np.eye(matrix.shape[0], dtype=matrix.dtype)
    return 0.5 * (matrix + square_root(matrix @ matrix + 4 * least**2 * unit))


def square_root(matrix: Float[Array, "n n"], rounds: int = 15) -> Float[Array, "n n"]:
    """The square root of a positive definite matrix; in closed form up to two rows, else by Denman and Beavers."""
    n = matrix.shape[0]
    if n == 1:
        return jnp.sqrt(matrix)
    unit = np.eye(n, dtype=matrix.dtype)
    if n == 2:
        root = jnp.sqrt(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
        return (matrix + root * unit) / jnp.sqrt(jnp.trace(matrix) + 2 * root)
    scale = jnp.trace(matrix) / n

    def step(pair, _):
        y, z = pair
        return (0.5 * (y + jnp.linalg.inv(z)), 0.5 * (z + jnp.linalg.inv(y))), None

    (y, _), _ = jax.lax.scan(step, (matrix / scale, unit), length=rounds)
    return jnp.sqrt(scale) * y
