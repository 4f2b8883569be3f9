"""Training data that is made or read while it is used: blocks of labelled samples, bounded in memory."""

import abc
import dataclasses
from collections.abc import Callable
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fnode.derivatives import Difference
from fnode.errors import InputError
from fnode.scale.design import AbstractDesign
from fnode.solvers import RK4, AbstractFixedStep
from fnode.systems import AbstractFirstOrder
from fnode.training import Labelled
from fnode.trajectory import State

CHUNK = 128  # motions that a device simulates at a time


class AbstractStream(abc.ABC):
    """An endless sequence of blocks; each holds `rows` samples in each of `lanes`, and an epoch has `blocks` of them.

    What a block holds follows from its number alone, so that training can go on from any block; lanes can be fetched
    one range at a time, so that processes share the work.
    """

    lanes: int
    rows: int

    @property
    @abc.abstractmethod
    def blocks(self) -> int:
        """How many blocks make one epoch."""

    @abc.abstractmethod
    def fetch(self, number: int, lanes: slice) -> PyTree[np.ndarray]:
        """What the host gives for some lanes of a block: arrays with a leading axis of lanes."""

    @abc.abstractmethod
    def labelled(self, fetched: PyTree[Array]) -> Labelled:
        """The samples of these lanes, computed where the model is trained: leading axes are lanes and rows."""

    @cached_property
    def _compiled(self) -> Callable[[PyTree], Labelled]:
        return jax.jit(self.labelled)

    def whole(self, number: int) -> Labelled:
        """All samples of one block, one after the other."""
        found = self._compiled(self.fetch(number, slice(0, self.lanes)))
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), found)


@dataclasses.dataclass(frozen=True)
class SimulatedStream(AbstractStream):
    """Motions of a system under the parameters of a design, simulated where they are learned from.

    Each lane is one motion. Its rows are drawn one from each of equal stretches of time; with as many rows as samples
    every sample is used once. Labels are differences of the motion's own samples, or with no method the system's
    equations, for comparison.
    """

    system: AbstractFirstOrder
    design: AbstractDesign
    ts: Float[np.ndarray, " samples"]
    lanes: int
    rows: int
    method: Difference | None
    solver: AbstractFixedStep = RK4
    seed: int = 0

    def __post_init__(self):
        if not 1 <= self.rows <= len(self.ts):
            raise InputError(
                f"got rows={self.rows} of each trajectory, which has {len(self.ts)} samples: choose 1 to that"
            )
        if self.design.count % self.lanes:
            raise InputError(
                f"got blocks of {self.lanes} trajectories, but the design has {self.design.count}: "
                "choose a block that divides it"
            )

    @property
    def blocks(self):
        return self.design.count // self.lanes

    @cached_property
    def stencils(self) -> tuple[np.ndarray, np.ndarray]:
        """Which samples make each label, and with which weights."""
        assert self.method is not None
        return self.method.stencils(self.ts)

    def fetch(self, number, lanes):
        first = number * self.lanes + lanes.start
        points = self.design.points(first, lanes.stop - lanes.start)
        return np.arange(first, first + len(points), dtype=np.uint32), points

    def labelled(self, fetched):
        """Chunk by chunk, so that the motions of one stay in a core's cache; each device has its share of a chunk."""
        lanes = fetched[0].shape[0]
        width = CHUNK * jax.device_count()
        chunks = lanes // width if lanes % width == 0 else 1
        cut = lambda leaf: jnp.moveaxis(leaf.reshape(lanes // chunks, chunks, *leaf.shape[1:]), 1, 0)  # noqa: E731
        parts = jax.tree.map(cut, fetched)
        found = jax.lax.map(self._labelled_chunk, parts)
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(lanes, *leaf.shape[2:]), found)

    def _labelled_chunk(self, fetched):
        positions, parameters = fetched
        chosen = jax.vmap(self.draw)(positions)
        q = simulate_side_by_side(self.system, parameters, jnp.asarray(self.ts), self.solver)
        ts = jnp.asarray(self.ts)[chosen]
        inputs = jnp.stack(jax.vmap(jax.vmap(self.system.inputs))(ts), axis=-1)
        constant = jnp.broadcast_to(parameters[:, None], (*chosen.shape, parameters.shape[1]))
        u = jnp.concatenate([inputs, constant], axis=-1)
        x = State(_picked(q, chosen), jnp.zeros((*chosen.shape, 0), ts.dtype))
        if self.method is None:
            field = jax.vmap(jax.vmap(self.system))
            return Labelled(ts, x, u, field(ts, x, u).q)
        samples, weights = self.stencils
        near, weight = jnp.asarray(samples)[chosen], jnp.asarray(weights)[chosen]
        rate = sum(weight[..., k, None] * _picked(q, near[..., k]) for k in range(samples.shape[1]))
        return Labelled(ts, x, u, jnp.asarray(rate))

    def draw(self, position):
        """The rows taken from the motion at a position of the design."""
        key = jax.random.fold_in(jax.random.key(self.seed), position)
        jitter = jax.random.uniform(key, (self.rows,), float)
        return jnp.floor((jnp.arange(self.rows) + jitter) * (len(self.ts) / self.rows)).astype(int)


def simulate_side_by_side(
    system: AbstractFirstOrder,
    parameters: Float[Array, "motions parameters"],
    ts: Float[Array, " samples"],
    solver: AbstractFixedStep = RK4,
) -> tuple[Float[Array, "samples motions"], ...]:
    """The coordinates of many motions of a system from its usual start, each under parameters of its own."""
    constants = system.constants(tuple(parameters.T))
    start = tuple(jnp.full(parameters.shape[:1], value, parameters.dtype) for value in system.protocol.q)
    solve: Callable[..., tuple] = solver.solve  # its schemes take any tree of arrays for a state
    return solve(
        lambda t, q, inputs: system.rates(q, inputs, constants), start, ts.astype(parameters.dtype), system.inputs
    )


def _picked(q: tuple, rows):
    """Coordinates side by side at some samples of each motion: axes are motions, rows, coordinates."""
    return jnp.stack([jnp.take_along_axis(values, rows.T, axis=0).T for values in q], axis=-1)
