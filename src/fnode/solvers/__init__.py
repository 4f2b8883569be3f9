"""Integrators: fixed-step and symplectic schemes as data, adaptive ones from diffrax, one verb for all."""

from fnode.errors import choose
from fnode.solvers._base import AbstractFixedStep, AbstractSolver
from fnode.solvers.adaptive import NON_STIFF, STIFF, TIGHT, Adaptive
from fnode.solvers.adjoint import ADJOINTS, AdjointRK4
from fnode.solvers.rollout import rollout
from fnode.solvers.runge_kutta import EULER, MIDPOINT, RK4, RungeKutta
from fnode.solvers.substeps import Substeps, enough_substeps, refined
from fnode.solvers.symplectic import STORMER_VERLET, YOSHIDA4, KickDriftKick

SOLVERS: dict[str, AbstractSolver] = {
    "euler": EULER,
    "midpoint": MIDPOINT,
    "rk4": RK4,
    "stormer_verlet": STORMER_VERLET,
    "yoshida4": YOSHIDA4,
    **{name: Adaptive(name) for name in (*NON_STIFF, *STIFF)},
}


def solver_named(name: str) -> AbstractSolver:
    """The solver with this name, or an error that lists the names there are."""
    return SOLVERS[choose("solver", name, SOLVERS)]


__all__ = [
    "ADJOINTS",
    "EULER",
    "MIDPOINT",
    "RK4",
    "SOLVERS",
    "STORMER_VERLET",
    "TIGHT",
    "YOSHIDA4",
    "AbstractFixedStep",
    "AbstractSolver",
    "Adaptive",
    "AdjointRK4",
    "KickDriftKick",
    "RungeKutta",
    "Substeps",
    "enough_substeps",
    "refined",
    "rollout",
    "solver_named",
]
