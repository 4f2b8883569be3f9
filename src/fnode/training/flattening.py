"""All numbers of a tree in one line and back, by numpy: nothing has to be compiled for it."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


def in_line(tree: PyTree) -> np.ndarray:
    """The numbers of all arrays, one after the other."""
    return np.concatenate([np.zeros(0), *(np.ravel(leaf) for leaf in jax.tree.leaves(tree))])


def in_place(numbers: np.ndarray, like: PyTree) -> PyTree:
    """The tree with other numbers."""
    leaves, structure = jax.tree.flatten(like)
    parts = np.split(numbers, np.cumsum([leaf.size for leaf in leaves])[:-1])
    placed = [jnp.asarray(part.reshape(leaf.shape), leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, placed)
