"""Linear algebra of symmetric banded matrices, in time proportional to their size.

A matrix is stored by its lower diagonals: `band[k, j]` is the entry in row `j + k`, column `j`.
"""

import numpy as np
from scipy.linalg import get_lapack_funcs

# Called a hundred times for one curve: the checks of their wrappers would cost as much as the work.
FACTORISE, SUBSTITUTE = get_lapack_funcs(("pbtrf", "pbtrs"))


def cholesky(band: np.ndarray) -> np.ndarray | None:
    """The lower factor in the same storage, or None where the matrix is not positive definite to rounding."""
    factor, info = FACTORISE(band, lower=True)
    return None if info else factor


def solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of `A x = right`, from the Cholesky factor of A."""
    return SUBSTITUTE(factor, right, lower=True)[0]


def log_determinant(factor: np.ndarray) -> float:
    """The logarithm of `det A`, from the Cholesky factor of A."""
    return 2.0 * float(np.sum(np.log(factor[0])))


def quadratic(band: np.ndarray, x: np.ndarray) -> float:
    """The number `x' A x`."""
    size = len(x)
    total = band[0] @ x**2
    for k in range(1, min(len(band), size)):
        total += 2.0 * band[k, : size - k] @ (x[k:] * x[:-k])
    return float(total)


def inverse_band(factor: np.ndarray) -> np.ndarray:
    """The entries of `inv(A)` inside the band of A: all that variances of local quantities need.

    Takahashi's recursion on blocks as wide as the band. With `A = L L'` in blocks and `G_i = L_{i+1,i} inv(L_ii)`,
    `S_ii = inv(L_ii L_ii') + G_i' S_{i+1,i+1} G_i` and `S_{i+1,i} = -S_{i+1,i+1} G_i`: sums of positive terms only.
    """
    width, size = len(factor) - 1, factor.shape[1]
    if width == 0:
        return factor**-2
    blocks = -(-size // width)
    padded = np.zeros((width + 1, (blocks + 1) * width))
    padded[:, :size] = factor
    padded[0, size:] = 1.0  # an identity at the end completes the last block and changes nothing before it
    start = width * np.arange(blocks)[:, None, None]
    row, column = np.indices((width, width))
    below = np.clip(row - column, 0, None)
    diagonal = np.where(row >= column, padded[below, start + column], 0.0)
    across = row + width - column
    coupling = np.where(across <= width, padded[np.minimum(across, width), start + column], 0.0)
    coupling[-1] = 0.0
    inverse = np.linalg.inv(diagonal)
    gain = coupling @ inverse
    own = inverse.transpose(0, 2, 1) @ inverse
    for i in range(blocks - 2, -1, -1):
        own[i] += gain[i].T @ own[i + 1] @ gain[i]
    crossed = np.zeros_like(own)
    crossed[:-1] = -own[1:] @ gain[:-1]
    stacked = np.concatenate([own, crossed], axis=1)  # two blocks deep, so that every column holds its whole band
    j = np.arange(size)
    return stacked[j // width, (j % width) + np.arange(width + 1)[:, None], j % width]
