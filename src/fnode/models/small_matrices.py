"""Linear algebra of the few-by-few matrices that mechanisms have."""

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
