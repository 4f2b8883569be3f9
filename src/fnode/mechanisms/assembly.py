"""Putting a mechanism together: a consistent start, its freedom, and what stands in the way."""

import dataclasses

import equinox as eqx
import numpy as np
import scipy.linalg

from fnode.constraints import (
    Partition,
    complete_positions,
    complete_velocities,
    find_partition,
    given_partition,
    jacobian_rank,
    project,
)
from fnode.errors import InputError
from fnode.mechanisms.mechanism import Mechanism
from fnode.trajectory import State

CLOSED = 1e-9
"""Joints open by less than this (in metres or radians) count as closed."""


class Assembly(eqx.Module):
    """A mechanism ready to move: where it starts and which of its coordinates are independent there."""

    mechanism: Mechanism
    start: State
    partition: Partition

    @property
    def rank(self) -> int:
        """How many independent constraints there are."""
        return self.partition.dependent.shape[0]


def assemble(mechanism: Mechanism) -> Assembly:
    """Move the bodies from their given poses until every joint is closed.

    Independent coordinates that the mechanism names keep the values they were given, and so do their rates; the other
    ones move as little as they can.
    """
    given = mechanism.start
    x, residual, jacobian = _projected(mechanism, given)
    _check_closed(mechanism, residual)
    rank = jacobian_rank(jacobian)
    _check_freedom(mechanism, x, np.asarray(jacobian), rank)
    if mechanism.independent:
        partition = _named_partition(mechanism, jacobian)
        x, jacobian = _completed(mechanism, partition, x, given)
        if not np.all(np.isfinite(x.q)) or jacobian_rank(jacobian) < rank:
            raise InputError(
                f"independent = {list(mechanism.independent)}: at the values they start with there is no pose that "
                "closes the joints, or it is a singular one; change these values or the poses nearby"
            )
    else:
        partition = find_partition(jacobian, rank)
    redundant = rank < jacobian.shape[0]
    if redundant:
        _check_friction(mechanism, np.asarray(jacobian))
    return Assembly(dataclasses.replace(mechanism, redundant=redundant), x, partition)


@eqx.filter_jit
def _projected(mechanism, x):
    """The nearest state that obeys the joints, with what is left of them and their Jacobian."""
    x = project(mechanism.constraints, x)
    return x, mechanism.phi(x.q), mechanism.constraints.jacobian(x.q)


@eqx.filter_jit
def _completed(mechanism, partition, near, given):
    """The state near `near` whose independent coordinates and rates are the given ones."""
    free = partition.independent
    q = complete_positions(mechanism.constraints, partition, near.q.at[free].set(given.q[free]))
    v = complete_velocities(mechanism.constraints, partition, q, given.v[free])
    return State(q, v), mechanism.constraints.jacobian(q)


def _named_partition(mechanism, jacobian):
    names = [column.name for column in mechanism.columns.coordinates]
    try:
        return given_partition(jacobian, [names.index(name) for name in mechanism.independent])
    except InputError as error:
        raise InputError(f"independent = {list(mechanism.independent)}: {error}") from error


def _check_closed(mechanism, residual):
    residual = np.abs(np.asarray(residual))
    open_by = {joint.name: float(residual[mechanism.rows(joint.name)].max()) for joint in mechanism.joints}
    widest = float(np.max(list(open_by.values()), initial=0.0))
    # Not a number where Newton's method found no pose at all.
    if widest <= CLOSED:
        return
    culprits = [f"'{name}'" for name, gap in open_by.items() if not gap < 0.1 * widest]
    raise InputError(
        f"the mechanism cannot be assembled: joints {', '.join(culprits)} stay open by up to {widest:.3g}; they "
        "contradict each other, or lengths and starting poses do not let them meet"
    )


def _check_freedom(mechanism, x, jacobian, rank):
    n = jacobian.shape[1]
    if rank == n:
        holding = ", ".join(f"'{joint.name}'" for joint in mechanism.joints)
        raise InputError(
            f"no freedom left: joints {holding} hold all {n} coordinates of the bodies; remove one or add a body"
        )
    free = scipy.linalg.null_space(jacobian, rcond=1e-9)
    if rank < jacobian.shape[0]:
        # Redundant for good, or only in this pose? A small motion tells.
        _, _, nearby = _projected(mechanism, State(x.q + 1e-3 * free.sum(axis=1), x.v))
        if jacobian_rank(nearby) > rank:
            raise InputError(
                f"the mechanism starts in a singular pose: there its joints leave {n - rank} freedoms, nearby fewer; "
                "start from another pose"
            )
    mass = np.asarray(mechanism.mass)
    sizes, directions = np.linalg.eigh(free.T @ (mass[:, None] * free))
    if sizes[0] <= 1e-12 * max(sizes[-1], 1e-300):
        loose = np.abs(free @ directions[:, 0]) * (mass == 0)
        body = mechanism.bodies[int(np.argmax(loose)) // 3]
        raise InputError(
            f"body '{body.name}' can move without moving any mass (mass {body.mass}, inertia {body.inertia}): "
            "give it mass and inertia, or hold it with joints"
        )


def _check_friction(mechanism, jacobian):
    """With redundant constraints some multipliers are a matter of choice; friction must not depend on those."""
    undetermined = scipy.linalg.null_space(jacobian.T, rcond=1e-9)
    for friction in mechanism.friction:
        if np.any(np.abs(undetermined[mechanism.rows(friction.joint)]) > 1e-6):
            raise InputError(
                f"friction on joint '{friction.joint}': other joints hold the same freedom, so the force that presses "
                "it is undetermined; remove the redundant joint"
            )
