"""The problem of one control step as a sparse quadratic programme: built once, its numbers replaced in place.

The unknowns are `u_0, z_1, u_1, z_2, ..., u_{N-1}, z_N`, stage by stage, so that the matrices are banded; with soft
bounds the slacks of all stages follow.
"""

import dataclasses

import numpy as np
import piqp
import scipy.sparse
from jaxtyping import Float

from fnode.control.linearise import Affine
from fnode.control.problem import Problem
from fnode.errors import InputError


class InfeasibleError(InputError):
    """No inputs keep the bounds."""


@dataclasses.dataclass(frozen=True)
class QP:
    """Minimise `w' p w / 2 + c' w` subject to `a w = b`, `g_low <= g w <= g_high`, `low <= w <= high`."""

    p: scipy.sparse.csc_matrix
    c: Float[np.ndarray, " unknowns"]
    a: scipy.sparse.csc_matrix
    b: Float[np.ndarray, " equalities"]
    g: scipy.sparse.csc_matrix | None
    g_low: Float[np.ndarray, " inequalities"] | None
    g_high: Float[np.ndarray, " inequalities"] | None
    low: Float[np.ndarray, " unknowns"]
    high: Float[np.ndarray, " unknowns"]


class HorizonQP:
    """The quadratic programme of a problem, whose linear model, start and reference change from step to step.

    `tolerance` is the solver's, for residuals and duality gap.
    """

    def __init__(self, problem: Problem, *, tolerance: float = 1e-10):
        self.problem, self.tolerance = problem, tolerance
        n, m, stages = problem.states, problem.inputs, problem.horizon
        self._stage = n + m
        self._inputs = np.arange(stages)[:, None] * (n + m) + np.arange(m)
        self._states = np.arange(stages)[:, None] * (n + m) + m + np.arange(n)
        low, high = problem.limits("states")
        bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        # Row `k` of each: the slack of a bounded state, its place among the unknowns and its two bounds.
        self._slacked = self._states[:, bounded].ravel() if problem.soft else np.empty(0, int)
        self._slack_bounds = np.tile(low[bounded], stages), np.tile(high[bounded], stages)
        if problem.soft and problem.terminal:
            self._soft_end()
        self.qp = self._empty()
        self._solver = None

    def update(
        self,
        model: Affine | None,
        z: Float[np.ndarray, " states"],
        states: Float[np.ndarray, "stages_1 states"],
        inputs: Float[np.ndarray, "stages inputs"],
    ) -> None:
        """Other numbers: a model of every stage (or none, to keep the last), the present state, the references."""
        problem, qp = self.problem, self.qp
        n, stages = problem.states, problem.horizon
        if model is not None:
            a, b, c = (np.asarray(part) for part in model)
            self._first, self._constant = a[0], c
            qp.a.data[self._places_a] = -a[1:].ravel()
            qp.a.data[self._places_b] = -b.ravel()
        right = qp.b[: stages * n].reshape(stages, n)
        right[:] = self._constant
        right[0] += self._first @ z
        if problem.terminal and not problem.soft:
            qp.b[stages * n :] = states[-1]
        qp.c[self._inputs] = -2 * inputs @ problem.input_weight
        qp.c[self._states[:-1]] = -2 * states[1:-1] @ problem.state_weight
        if problem.end_weight is not None:
            qp.c[self._states[-1]] = -2 * states[-1] @ problem.end_weight
        if problem.soft and problem.terminal and qp.g_low is not None and qp.g_high is not None:
            count = len(self._slacked)
            qp.g_low[count - n : count] = states[-1]
            qp.g_high[2 * count - n :] = states[-1]
        if self._solver is None:
            self._solver = _solver(qp, self.tolerance)
        else:
            a = None if model is None else qp.a
            self._solver.update(c=qp.c, A=a, b=qp.b, h_l=qp.g_low, h_u=qp.g_high)

    def solve(self) -> tuple[Float[np.ndarray, "stages states"], Float[np.ndarray, "stages inputs"]]:
        """The best states `z_1 ... z_N` and inputs `u_0 ... u_{N-1}`."""
        if self._solver is None:
            raise InputError("the quadratic programme has no numbers yet: update it before solving")
        status = self._solver.solve()
        if status == piqp.PIQP_PRIMAL_INFEASIBLE:
            raise InfeasibleError(
                f"no inputs keep the bounds over the next {self.problem.horizon} steps: widen the bounds, lengthen the "
                "horizon or make the bounds soft"
            )
        if status != piqp.PIQP_SOLVED:
            raise InfeasibleError(
                f"the quadratic programme was not solved ({status.name.removeprefix('PIQP_').lower()}): "
                "its bounds may leave no solution; widen them, make them soft, or scale the weights"
            )
        w = self._solver.result.x
        low, high = self.problem.limits("inputs")
        # An interior solution is within the bounds but for round-off; an actuator takes no more than its bound.
        return w[self._states], np.clip(w[self._inputs], low, high)

    def _soft_end(self) -> None:
        """A soft terminal constraint is a pair of equal soft bounds, those of the reference, on the last state."""
        problem = self.problem
        low, high = self._slack_bounds
        before = ~np.isin(self._slacked, self._states[-1])
        self._slacked = np.concatenate([self._slacked[before], self._states[-1]])
        zero = np.zeros(problem.states)
        self._slack_bounds = np.concatenate([low[before], zero]), np.concatenate([high[before], zero])

    def _empty(self) -> QP:
        """The matrices with their pattern; every entry that a model fills is there."""
        problem = self.problem
        n, m, stages = problem.states, problem.inputs, problem.horizon
        slacks = len(self._slacked)
        unknowns = stages * (n + m) + slacks
        end = np.zeros((n, n)) if problem.end_weight is None else problem.end_weight
        blocks = [problem.input_weight, problem.state_weight] * (stages - 1) + [problem.input_weight, end]
        blocks = [2 * scipy.sparse.csc_matrix(block) for block in blocks]
        p = scipy.sparse.block_diag([*blocks, scipy.sparse.csc_matrix((slacks, slacks))], format="csc")
        c = np.zeros(unknowns)
        c[stages * (n + m) :] = problem.soft or 0.0

        # z_{k+1} - A_k z_k - B_k u_k = c_k; then z_N = reference, where the terminal constraint is hard.
        rows = np.arange(stages * n).reshape(stages, n)
        place_a = np.repeat(rows[1:, :, None], n, 2).ravel(), np.repeat(self._states[:-1, None, :], n, 1).ravel()
        place_b = np.repeat(rows[:, :, None], m, 2).ravel(), np.repeat(self._inputs[:, None, :], n, 1).ravel()
        ones = rows.ravel(), self._states.ravel()
        if problem.terminal and not problem.soft:
            last = stages * n + np.arange(n)
            ones = np.concatenate([ones[0], last]), np.concatenate([ones[1], self._states[-1]])
        parts = (place_a, place_b, ones)
        row, column = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        height = int(row.max()) + 1
        order = np.arange(1, len(row) + 1)
        a = scipy.sparse.csc_matrix(
            scipy.sparse.coo_matrix((order, (row, column)), shape=(height, unknowns)), dtype=float
        )
        where = np.empty(len(row), int)
        where[a.data.astype(int) - 1] = np.arange(len(row))
        self._places_a, self._places_b = where[: len(place_a[0])], where[len(place_a[0]) :][: len(place_b[0])]
        a.data[where[len(place_a[0]) + len(place_b[0]) :]] = 1.0

        low, high = np.full(unknowns, -np.inf), np.full(unknowns, np.inf)
        low[self._inputs], high[self._inputs] = problem.limits("inputs")
        if not problem.soft:
            free = -1 if problem.terminal else None  # the terminal constraint alone decides about the last state
            low[self._states[:free]], high[self._states[:free]] = problem.limits("states")
        low[stages * (n + m) :] = 0.0
        g, sides = None, (None, None)
        if slacks:
            pick = scipy.sparse.csc_matrix((np.ones(slacks), (np.arange(slacks), self._slacked)), (slacks, unknowns))
            slack = scipy.sparse.eye(slacks, unknowns, stages * (n + m), format="csc")
            g = scipy.sparse.csc_matrix(scipy.sparse.vstack([pick + slack, pick - slack]))
            never = np.full(slacks, np.inf)
            sides = np.concatenate([self._slack_bounds[0], -never]), np.concatenate([never, self._slack_bounds[1]])
        return QP(scipy.sparse.csc_matrix(p), c, a, np.zeros(height), g, *sides, low, high)


def _solver(qp: QP, tolerance: float) -> piqp.SparseSolver:
    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_duality_gap_abs = tolerance
    settings.eps_rel = settings.eps_duality_gap_rel = 0.1 * tolerance
    settings.preconditioner_reuse_on_update = True
    solver.setup(qp.p, qp.c, qp.a, qp.b, qp.g, qp.g_low, qp.g_high, qp.low, qp.high)
    return solver
