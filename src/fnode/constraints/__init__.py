"""Kinematic constraints: their derivatives, constraint forces, and full coordinates from independent ones."""

from fnode.constraints.completion import complete, complete_accelerations, complete_positions, complete_velocities
from fnode.constraints.holonomic import Holonomic
from fnode.constraints.kkt import solve_kkt
from fnode.constraints.partition import Partition, find_partition, given_partition, jacobian_rank
from fnode.constraints.projection import project

__all__ = [
    "Holonomic",
    "Partition",
    "complete",
    "complete_accelerations",
    "complete_positions",
    "complete_velocities",
    "find_partition",
    "given_partition",
    "jacobian_rank",
    "project",
    "solve_kkt",
]
