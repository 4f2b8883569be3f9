"""Measured coordinates as constraints link them: which ones are learned, and how all the others follow."""

import dataclasses
import statistics
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.constraints import (
    Holonomic,
    Partition,
    complete,
    find_partition,
    given_partition,
    jacobian_rank,
    project,
)
from fnode.errors import InputError
from fnode.io import plain_name
from fnode.mechanisms.assembly import CLOSED, assemble
from fnode.mechanisms.description import described
from fnode.mechanisms.mechanism import Mechanism
from fnode.trajectory import Column, Columns, State, Trajectory

MOST_POSES = 64  # that are kept of the data
LOOKED_AT = 2000  # samples of the data that tell how well they obey
GROSS = 0.05  # of the motion: data farther off than this belong to another mechanism
LEADING_STEPS = 100  # from a known pose to the one where a motion starts


@dataclasses.dataclass(frozen=True)
class Misfit:
    """How far data are from obeying constraints: the mean absolute residual, and the size of the smallest correction
    of the coordinates relative to their spread, the median over coordinates."""

    residual: float
    share: float

    @property
    def gross(self) -> bool:
        """Whether noise is no likely reason."""
        return not self.share <= GROSS

    def __str__(self) -> str:
        share = f"{100 * self.share:.2g} %" if self.share >= 1e-4 else "less than 0.01 %"
        told = f"off by {self.residual:.2g} on average, {share} of their motion"
        if not self.gross:
            return f"the data obey the constraints: {told}"
        return f"the data do not obey the constraints: {told}; check lengths, units and the order of the coordinates"


@dataclasses.dataclass(frozen=True)
class Linkage:
    """Coordinates under constraints: the independent ones determine all.

    `poses` obey the constraints; the one nearest to where a motion starts says which assembly branch is meant. A
    linkage that came from a TOML file has its `mechanism` and the file's text as its `description`.
    """

    constraints: Holonomic
    partition: Partition
    poses: Float[Array, "poses n"]
    full_columns: Columns
    mechanism: Mechanism | None = None
    description: str | None = None
    misfit: Misfit | None = None  # of the data, where they have all coordinates

    @property
    def columns(self) -> Columns:
        """What is learned: the independent coordinates, with the same inputs and parameters."""
        chosen = tuple(self.full_columns.coordinates[i] for i in self.partition.independent.tolist())
        return dataclasses.replace(self.full_columns, coordinates=chosen)

    def lines(self) -> list[str]:
        """What is learned and what follows, and how well the data obey."""
        free = [column.name for column in self.columns.coordinates]
        rest = [column.name for column in self.full_columns.coordinates if column.name not in free]
        told = [f"learned:     {', '.join(free)}; constraints give {', '.join(rest)}"]
        mark = "warning:" if self.misfit is not None and self.misfit.gross else "mechanism:"
        return told if self.misfit is None else [*told, f"{mark:<13}{self.misfit}"]

    def complete(self, trajectory: Trajectory) -> Trajectory:
        """All coordinates of a motion of the independent ones, at all levels that are known of it."""
        independent, start = self.partition.independent, trajectory.x.q[0]
        near = self.poses[jnp.argmin(jnp.linalg.norm(self.poses[:, independent] - start, axis=1))]
        way = jnp.linspace(0.0, 1.0, LEADING_STEPS)
        step = start - near[independent]
        there = State(near[independent] + way[:, None] * step, jnp.broadcast_to(step, (LEADING_STEPS, step.size)))
        # A start may be far from every known pose: Newton's method is led there along a straight line.
        led = self._completed(Trajectory(way, there, columns=self.columns), near)
        return self._completed(trajectory, led.x.q[-1])

    def _completed(self, trajectory: Trajectory, guess: Float[Array, " n"]) -> Trajectory:
        return complete(self.constraints, self.partition, trajectory, guess, columns=self.full_columns)


def reduced(trajectory: Trajectory, coordinates: tuple[Column, ...]) -> Trajectory:
    """The same motion by some of its coordinates."""
    names = [column.name for column in trajectory.columns.coordinates]
    wanted = [column.name for column in coordinates]
    if missing := [name for name in wanted if name not in names]:
        raise InputError(f"no coordinate '{missing[0]}' among {', '.join(names)}: need {', '.join(wanted)}")
    places = np.array([names.index(name) for name in wanted])
    a = None if trajectory.a is None else trajectory.a[:, places]
    x = State(trajectory.x.q[:, places], trajectory.x.v[:, places[: trajectory.x.v.shape[1]]])
    return Trajectory(
        trajectory.ts, x, trajectory.u, a, columns=dataclasses.replace(trajectory.columns, coordinates=coordinates)
    )


def link(constraints: Holonomic, columns: Columns, q: Float[np.ndarray, "samples n"], independent=()) -> Linkage:
    """The linkage of data with all coordinates, `q`, whose columns are in the order that the constraints take.

    Without names of `independent` coordinates, those are taken that pivoting finds somewhere along the motion and that
    determine the others best where they do it worst.
    """
    q = q[np.isfinite(q).all(axis=1)]
    if not len(q):
        raise InputError("no sample has all coordinates: constraints need at least one")
    _check_shape(constraints, columns, q)
    poses = _projected(constraints, jnp.asarray(_thinned(q, MOST_POSES)))
    jacobians = _jacobians(constraints, poses)
    rank = statistics.mode(jacobian_rank(jacobian) for jacobian in jacobians)
    if rank == q.shape[1]:
        raise InputError(f"no freedom left: {rank} independent constraints hold all of the {rank} coordinates")
    partition = _partition_of(columns, jacobians[0], independent) if independent else _steadiest(jacobians, rank)
    return Linkage(constraints, partition, poses, columns, misfit=_misfit(constraints, _thinned(q, LOOKED_AT)))


def link_mechanism(description: str, columns: Columns, q: Float[np.ndarray, "samples measured"]) -> Linkage:
    """The linkage of data with some coordinates of a mechanism, all or at least independent ones, matched by name."""
    mechanism = described(description)
    places = _places(columns, mechanism)
    names = {place: columns.coordinates[k].name for k, place in enumerate(places)}  # as the data spell them
    coordinates = tuple(
        dataclasses.replace(column, name=names.get(place, column.name))
        for place, column in enumerate(mechanism.columns.coordinates)
    )
    full = dataclasses.replace(columns, coordinates=coordinates)
    own = [column.name for column in mechanism.columns.coordinates]
    independent = [coordinates[own.index(name)].name for name in mechanism.independent]
    if len(places) == len(coordinates):
        found = link(mechanism.constraints, full, q[:, np.argsort(places)], independent)
    else:
        start = assemble(mechanism).start.q
        measured = [column.name for column in columns.coordinates]
        chosen = independent if independent and set(independent) <= set(measured) else measured
        partition = _partition_of(full, mechanism.constraints.jacobian(start), chosen)
        found = Linkage(mechanism.constraints, partition, start[None], full)
    return dataclasses.replace(found, mechanism=mechanism, description=description)


def _places(columns: Columns, mechanism: Mechanism) -> list[int]:
    """Where the measured coordinates stand among those of the mechanism."""
    names = [column.name for column in mechanism.columns.coordinates]
    plain = [plain_name(name) for name in names]
    measured = [column.name for column in columns.coordinates]
    if unknown := [name for name in measured if plain_name(name) not in plain]:
        raise InputError(
            f"the mechanism has no coordinate '{unknown[0]}': it has {', '.join(names)}; the data have "
            f"{', '.join(measured)}; name bodies and columns alike, or choose columns with --set coordinates="
        )
    return [plain.index(plain_name(name)) for name in measured]


def _partition_of(columns: Columns, jacobian, independent: Sequence[str]) -> Partition:
    """The partition by names."""
    names = [column.name for column in columns.coordinates]
    try:
        return given_partition(jnp.asarray(jacobian), [names.index(name) for name in independent])
    except InputError:
        freedom = len(names) - jacobian_rank(jacobian)
        raise InputError(
            f"{', '.join(independent)} cannot stand for all coordinates: the constraints leave {freedom} of "
            f"{', '.join(names)} free, and the others must follow; measure all, or name others as independent"
        ) from None


def _check_shape(constraints: Holonomic, columns: Columns, q: np.ndarray) -> None:
    names = ", ".join(column.name for column in columns.coordinates)
    try:
        shape = jax.eval_shape(constraints, jnp.asarray(q[0])).shape
    except (TypeError, ValueError, IndexError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"the constraints cannot be computed from the coordinates {names}: {reason}") from None
    if len(shape) != 1:
        raise InputError(f"the constraints have shape {shape}: need a vector of residuals of the coordinates {names}")


@eqx.filter_jit
def _projection(constraints, q):
    near = jax.vmap(lambda q: project(constraints, State(q, jnp.zeros_like(q))).q)(q)
    return near, jnp.max(jnp.abs(jax.vmap(constraints)(near)), axis=1, initial=0.0)


def _projected(constraints: Holonomic, q: Float[Array, "poses n"]) -> Float[Array, "poses n"]:
    """The nearest poses that obey."""
    poses, left = _projection(constraints, q)
    closed = np.asarray(left) <= CLOSED  # not a number where Newton's method found no pose at all
    if not closed.any():
        raise InputError(
            f"near none of the samples can the constraints be met: they stay open by at least {np.min(left):.3g}; they "
            "contradict each other, or are not those of these data"
        )
    return poses[closed]


@eqx.filter_jit
def _jacobians(constraints, poses):
    return jax.vmap(constraints.jacobian)(poses)


def _steadiest(jacobians: Float[Array, "poses m n"], rank: int) -> Partition:
    """Of the partitions that pivoting finds along a motion, the one that is best where it is worst."""
    pivot = eqx.filter_jit(lambda jacobian: find_partition(jacobian, rank))
    found = {tuple(partition.independent.tolist()): partition for partition in map(pivot, jacobians)}

    def worst(partition: Partition) -> float:
        turned = np.unique(jax.vmap(partition.orientation)(jacobians))
        return float(jnp.max(jax.vmap(partition.condition)(jacobians))) if len(turned) == 1 else np.inf

    best = min(found.values(), key=worst)
    if not np.isfinite(worst(best)):
        raise InputError(
            "no choice of independent coordinates determines the others along the whole motion: every one passes a "
            "dead centre; learn from a shorter stretch, or without the constraints"
        )
    return best


def _misfit(constraints: Holonomic, q: np.ndarray) -> Misfit:
    """How far samples are from obeying; coordinates that stand still have no spread to compare with."""

    @eqx.filter_jit
    def off(q):
        residual, jacobian = constraints(q), constraints.jacobian(q)
        return residual, jnp.linalg.pinv(jacobian, rtol=1e-10) @ residual

    residuals, corrections = (np.asarray(part) for part in jax.vmap(off)(jnp.asarray(q)))
    spread = np.std(q, axis=0)
    moving = spread > 0
    shares = np.sqrt(np.mean(corrections[:, moving] ** 2, axis=0)) / spread[moving]
    return Misfit(float(np.mean(np.abs(residuals))), float(np.median(shares)) if moving.any() else 0.0)


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the rows, evenly chosen, the first and the last among them."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))]
