"""The motion of a mechanism, by two routes that know nothing of each other."""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fnode.constraints import Partition, complete_positions, complete_velocities, find_partition, project
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.mechanisms.assembly import Assembly, assemble
from fnode.mechanisms.mechanism import Mechanism
from fnode.solvers import TIGHT, AbstractSolver
from fnode.trajectory import State, Trajectory

PATIENT = dataclasses.replace(TIGHT, max_steps=2_000)  # between two samples
SINGULAR = 1e11
"""Condition number from which on a pose counts as singular."""


class Partitioned(AbstractField):
    """The motion of the independent coordinates; the dependent ones are recomputed from them at every call.

    The state holds all coordinates and the independent velocities. Dependent coordinates in it only say where Newton's
    method starts, and thereby which assembly branch is meant: their own integration error never enters.
    """

    mechanism: Mechanism
    partition: Partition

    def full(self, x: State) -> State:
        """The state of all coordinates that obeys the constraints."""
        constraints = self.mechanism.constraints
        q = complete_positions(constraints, self.partition, x.q)
        return State(q, complete_velocities(constraints, self.partition, q, x.v))

    def minimal(self, x: State) -> State:
        """The state this field integrates."""
        return State(x.q, x.v[self.partition.independent])

    def __call__(self, t, x, u=None):
        full = self.full(x)
        return State(full.v, self.mechanism.acceleration(t, full, u)[self.partition.independent])


class AbstractRoute(eqx.Module):
    """A way to carry a mechanism from one sample to the next."""

    @abc.abstractmethod
    def advance(
        self, mechanism: Mechanism, partition: Partition, x: State, ts: Float[Array, "2"], control, solver
    ) -> tuple[Partition, State, Bool[Array, ""]]:
        """The partition to go on with, the state at `ts[1]`, and whether the way there is sound."""


class Partitioning(AbstractRoute):
    """Integrate independent coordinates, complete the others.

    At every sample pivoting looks for a partition that is `patience` times better conditioned; if there is one it
    takes over, so that a dead centre of one coordinate is passed with another one.
    """

    patience: float = 3.0

    def advance(self, mechanism, partition, x, ts, control, solver):
        jacobian = mechanism.constraints.jacobian(x.q)
        best = find_partition(jacobian, partition.dependent.shape[0])
        worn = ~(partition.condition(jacobian) <= self.patience * best.condition(jacobian))
        partition = jax.tree.map(lambda new, old: jnp.where(worn, new, old), best, partition)
        field = Partitioned(mechanism, partition)
        moved = solver.solve(field, field.minimal(x), ts, control)
        following = field.full(jax.tree.map(lambda leaf: leaf[-1], moved))
        reached = mechanism.constraints.jacobian(following.q)
        sound = (partition.orientation(reached) == partition.orientation(jacobian)) & (
            best.condition(jacobian) < SINGULAR
        )
        return partition, following, sound


class Projecting(AbstractRoute):
    """Integrate all coordinates with the index-1 equations, and put every sample back onto the constraints."""

    def advance(self, mechanism, partition, x, ts, control, solver):
        moved = solver.solve(mechanism, x, ts, control)
        following = project(mechanism.constraints, jax.tree.map(lambda leaf: leaf[-1], moved))
        sizes = jnp.linalg.svd(mechanism.constraints.jacobian(following.q), compute_uv=False)
        return partition, following, sizes[0] < SINGULAR * sizes[partition.dependent.shape[0] - 1]


def simulate(
    mechanism: Mechanism | Assembly,
    ts: Float[Array, " samples"],
    *,
    control=None,
    solver: AbstractSolver = PATIENT,
    route: AbstractRoute = Partitioning(),  # noqa: B008
) -> Trajectory:
    """The motion of a mechanism from its start, in all coordinates and at all three levels.

    `control` is a function of time that gives the mechanism's inputs. An error says at which time
    the motion could not be followed.
    """
    assembly = mechanism if isinstance(mechanism, Assembly) else assemble(mechanism)
    ts = jnp.asarray(ts, float)
    x, sound = _march(assembly, ts, control or _no_inputs, solver, route)
    if not np.all(sound):
        k = int(np.argmin(np.asarray(sound)))
        raise InputError(
            f"the motion cannot be followed beyond t = {float(ts[max(k - 1, 0)]):g}: before t = {float(ts[k]):g} the "
            "mechanism meets a singular pose, or the solver gave up; stop there, sample more finely or change the start"
        )
    return _record(assembly.mechanism, x, ts, control)


def _no_inputs(t):
    return None


@eqx.filter_jit
def _march(assembly, ts, control, solver, route):
    mechanism, x0 = assembly.mechanism, assembly.start

    def advance(carry, interval):
        def go(partition, x):
            partition, x, kept = route.advance(mechanism, partition, x, interval, control, solver)
            return partition, x, kept & jnp.all(jnp.isfinite(x.q)) & jnp.all(jnp.isfinite(x.v))

        def stay(partition, x):
            return partition, x, jnp.asarray(False)

        partition, x, sound = carry
        carry = jax.lax.cond(sound, go, stay, partition, x)
        return carry, carry[1:]

    carry = (assembly.partition, x0, jnp.asarray(True))
    _, (later, sound) = jax.lax.scan(advance, carry, jnp.stack([ts[:-1], ts[1:]], axis=1))
    join = lambda first, rest: jnp.concatenate([first[None], rest])  # noqa: E731
    return jax.tree.map(join, x0, later), join(jnp.asarray(True), sound)


@eqx.filter_jit
def _record(mechanism, x, ts, control):
    u = jax.vmap(control)(ts) if control is not None and mechanism.columns.inputs else None
    a = jax.vmap(mechanism.acceleration)(ts, x, u)
    return Trajectory(ts, x, u, a, columns=mechanism.columns)
