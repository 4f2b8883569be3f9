"""The arrays of any model or training state as one safetensors file: nothing is pickled, nothing is evaluated."""

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from fnode.errors import InputError
from fnode.io.atomic import replacing


def write_arrays(path: Path, tree: PyTree, metadata: dict[str, str] | None = None) -> None:
    """Every array of `tree`, under the name of its place in it."""
    write_named(path, {name: np.asarray(leaf) for name, leaf in _named_arrays(tree).items()}, metadata)


def write_named(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Arrays under their names."""
    with replacing(path) as temporary:
        safetensors.numpy.save_file({name: np.asarray(a, order="C") for name, a in arrays.items()}, temporary, metadata)


def read_named(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of a file by their names: all, or those that are named and there."""
    return _stored(path, names)[0]


def read_arrays(path: Path, like: PyTree) -> tuple[PyTree, dict[str, str]]:
    """`like` with its arrays replaced by those of the file, and the file's metadata."""
    stored, metadata = _stored(path)
    wanted = _named_arrays(like)
    if stored.keys() != wanted.keys() or any(stored[name].shape != wanted[name].shape for name in wanted):
        raise InputError(f"{path} does not hold the arrays that this model needs: it belongs to another configuration")
    arrays, rest = eqx.partition(like, _is_array)
    leaves = [jnp.asarray(stored[name]) for name in wanted]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), rest), metadata


def _stored(path: Path, names: Sequence[str] | None = None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            wanted = [name for name in file.keys() if names is None or name in names]  # noqa: SIM118
            return {name: file.get_tensor(name) for name in wanted}, file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise InputError(f"{path} is damaged ({error}): train again or restore the file") from None


def _named_arrays(tree) -> dict:
    arrays = eqx.filter(tree, _is_array)
    return {
        jax.tree_util.keystr(place, simple=True, separator="."): leaf
        for place, leaf in jax.tree_util.tree_flatten_with_path(arrays)[0]
    }


def _is_array(leaf) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
