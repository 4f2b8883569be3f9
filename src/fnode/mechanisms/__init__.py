"""Planar mechanisms: bodies, joints and forces that compile to one field, and their motion."""

from fnode.mechanisms.assembly import Assembly, assemble
from fnode.mechanisms.bodies import GROUND, Body
from fnode.mechanisms.description import described, mechanism_from, read_mechanism
from fnode.mechanisms.forces import FORCES, AbstractForce, Force, Spring, Torque, Torsion
from fnode.mechanisms.friction import Friction
from fnode.mechanisms.joints import JOINTS, AbstractJoint, Distance, Fixed, PointOnLine, Prismatic, Revolute
from fnode.mechanisms.linkage import Linkage, Misfit, link, link_mechanism, reduced
from fnode.mechanisms.mechanism import Mechanism
from fnode.mechanisms.minimal import Minimal
from fnode.mechanisms.simulation import Partitioned, Partitioning, Projecting, simulate

__all__ = [
    "FORCES",
    "GROUND",
    "JOINTS",
    "AbstractForce",
    "AbstractJoint",
    "Assembly",
    "Body",
    "Distance",
    "Fixed",
    "Force",
    "Friction",
    "Linkage",
    "Mechanism",
    "Minimal",
    "Misfit",
    "Partitioned",
    "Partitioning",
    "PointOnLine",
    "Prismatic",
    "Projecting",
    "Revolute",
    "Spring",
    "Torque",
    "Torsion",
    "assemble",
    "described",
    "link",
    "link_mechanism",
    "mechanism_from",
    "read_mechanism",
    "reduced",
    "simulate",
]
