"""Which coordinates are free to choose and which ones the constraints then fix."""

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float, Int

from fnode.errors import InputError

RANK_TOLERANCE = 1e-9
"""Singular values of the Jacobian below this part of the largest one count as zero."""


class Partition(eqx.Module):
    """Independent and dependent coordinates, by position in `q`.

    `rows` are as many constraints as there are dependent coordinates: all of them, unless some are redundant.
    """

    independent: Int[Array, " f"]
    dependent: Int[Array, " d"]
    rows: Int[Array, " d"]

    def split(self, jacobian: Float[Array, "m n"]) -> tuple[Float[Array, "d f"], Float[Array, "d d"]]:
        """The columns of the independent and of the dependent coordinates."""
        used = jacobian[self.rows]
        return used[:, self.independent], used[:, self.dependent]

    def condition(self, jacobian: Float[Array, "m n"]) -> Float[Array, ""]:
        """Condition number of the block of the dependent coordinates: without bound near a dead centre."""
        return jnp.linalg.cond(self.split(jacobian)[1])

    def orientation(self, jacobian: Float[Array, "m n"]) -> Float[Array, ""]:
        """The sign of the determinant of the dependent block: a motion that changes it has passed a dead centre."""
        return jnp.linalg.slogdet(self.split(jacobian)[1])[0]


def jacobian_rank(jacobian) -> int:
    """How many of the constraints are independent at this pose."""
    sizes = np.linalg.svd(np.asarray(jacobian), compute_uv=False)
    return int(np.sum(sizes > RANK_TOLERANCE * sizes.max(initial=0.0)))


def find_partition(jacobian: Float[Array, "m n"], rank: int) -> Partition:
    """The partition that pivoting on the constraint Jacobian finds: the `rank` best-determined columns depend."""
    order = _pivots(jacobian)
    dependent = jnp.sort(order[:rank])
    rows = jnp.sort(_pivots(jacobian[:, dependent].T)[:rank])
    return Partition(jnp.sort(order[rank:]), dependent, rows)


def given_partition(jacobian: Float[Array, "m n"], independent) -> Partition:
    """The partition with these independent coordinates, after making sure that they determine all others."""
    n, rank = jacobian.shape[1], jacobian_rank(jacobian)
    free = sorted({int(i) for i in independent})
    if len(free) != n - rank or not all(0 <= i < n for i in free):
        raise InputError(
            f"partition with independent coordinates {list(independent)}: {n} coordinates under {rank} independent "
            f"constraints need {n - rank} different ones between 0 and {n - 1}"
        )
    dependent = jnp.array([i for i in range(n) if i not in free], dtype=int)
    block = jacobian[:, dependent]
    if jacobian_rank(block) < rank:
        raise InputError(
            f"partition with independent coordinates {free}: they do not determine the others at this pose (rank "
            f"{jacobian_rank(block)} of {rank}): choose others, or leave the choice to pivoting"
        )
    return Partition(jnp.array(free, dtype=int), dependent, jnp.sort(_pivots(block.T)[:rank]))


def _pivots(matrix):
    """Columns in the order in which QR with column pivoting takes them."""
    return jax.scipy.linalg.qr(matrix, mode="r", pivoting=True)[1]
