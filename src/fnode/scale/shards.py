"""Measured data that does not fit into memory, file by file."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fnode.derivatives import estimated, label_of
from fnode.errors import InputError
from fnode.scale.shuffle import Shuffle, joined
from fnode.scale.stream import AbstractStream
from fnode.training import Labelled
from fnode.trajectory import Columns, Trajectory


@dataclasses.dataclass(frozen=True)
class ShardStream(AbstractStream):
    """Samples of files that are read one at a time; each epoch has one block for every file, in a new order.

    A block takes its samples at random from the trajectories of its file, others in every epoch; a file with fewer
    samples than a block gives some of them twice. Each trajectory is differentiated on its own.
    """

    files: tuple[Path, ...]
    read: Callable[[Path], Mapping[str, Trajectory]]
    method: str
    lanes: int
    rows: int
    seed: int = 0

    def __post_init__(self):
        if not self.files:
            raise InputError("got no files to learn from: give more of them than are held out")

    @property
    def blocks(self):
        return len(self.files)

    @functools.cached_property
    def columns(self) -> Columns:
        return next(iter(self.read(self.files[0]).values())).columns

    def fetch(self, number, lanes):
        epoch, place = divmod(number, self.blocks)
        seed = joined(self.seed, epoch)
        file = self.files[int(Shuffle(self.blocks, seed)(np.array([place]))[0])]
        samples = _labelled_file(self, file)
        count, wanted = len(samples.t), self.lanes * self.rows
        order = Shuffle(count, joined(seed, place))(np.arange(wanted) % count)
        mine = order.reshape(self.lanes, self.rows)[lanes]
        return jax.tree.map(lambda leaf: leaf[mine], samples)

    def labelled(self, fetched):
        return fetched


@functools.lru_cache(maxsize=1)
def _labelled_file(stream: ShardStream, file: Path) -> Labelled:
    """All samples of a file that have labels."""
    parts = []
    for name, trajectory in stream.read(file).items():
        if trajectory.columns != stream.columns:
            raise InputError(f"{file}, trajectory {name}: its columns differ from those of {stream.files[0]}")
        labels = label_of(trajectory, stream.method)
        known = labels.rate.known.all(axis=1)
        there = estimated(trajectory, labels)
        samples = Labelled(there.ts, there.x, there.u, jnp.asarray(labels.rate.value))
        parts.append(jax.tree.map(lambda leaf, known=known: np.asarray(leaf)[known], samples))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
