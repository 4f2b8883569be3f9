"""Model predictive control with any field, analytic or learned: one quadratic programme per step.

What differs between the variants is where the field is linearised: once at a point (the paper), at every state met, or
along the whole predicted motion (the real-time iteration, which makes the controller nonlinear).
"""

import abc
import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from fnode.control.linearise import Affine, Scheme, interval_model
from fnode.control.problem import Problem
from fnode.control.qp import HorizonQP
from fnode.errors import InputError
from fnode.field import AbstractField

Reference = Callable[[np.ndarray], np.ndarray]
"""The states wanted at given times, one row each."""


class Plan(NamedTuple):
    """What a controller expects to happen: the states from now to the end of the horizon, and the inputs between."""

    states: Float[np.ndarray, "stages_1 states"]
    inputs: Float[np.ndarray, "stages inputs"]

    def shifted(self) -> "Plan":
        """The same plan one step later; its last input is held for one more step."""
        return Plan(
            np.concatenate([self.states[1:], self.states[-1:]]), np.concatenate([self.inputs[1:], self.inputs[-1:]])
        )


class AbstractLinearisation(abc.ABC):
    """Where the linear models of a step come from."""

    rounds: int = 1  # of linearising and solving in every step
    first_rounds: int = 1  # the same in the very first step, when there is no plan yet

    @abc.abstractmethod
    def models(self, at: Callable[..., Affine], plan: Plan) -> Affine | None:
        """A model of every stage about a plan, or none when the last ones still hold; `at` maps stacks of states and
        inputs to stacks of models."""


@dataclasses.dataclass
class AtPoint(AbstractLinearisation):
    """Once, at a fixed state and input: the origin unless others are given (the paper's way).

    The point is taken for an equilibrium, also where a learned field drifts there a little: the model then predicts
    that it stays, so that the closed loop ends in it. With `drifting` the field's own constant term counts.
    """

    state: np.ndarray | None = None
    input: np.ndarray | None = None
    drifting: bool = False
    _known: bool = dataclasses.field(default=False, init=False)

    def models(self, at, plan):
        if self._known:
            return None
        self._known = True
        z = np.zeros(plan.states.shape[1]) if self.state is None else np.asarray(self.state, float)
        u = np.zeros(plan.inputs.shape[1]) if self.input is None else np.asarray(self.input, float)
        a, b, c = map(np.asarray, at(z[None], u[None]))
        return _repeated(Affine(a, b, c if self.drifting else z - a @ z - b @ u), len(plan.inputs))


@dataclasses.dataclass
class AtState(AbstractLinearisation):
    """Anew in every step, at the present state and the input planned for it."""

    def models(self, at, plan):
        return _repeated(at(plan.states[:1], plan.inputs[:1]), len(plan.inputs))


@dataclasses.dataclass
class AlongPlan(AbstractLinearisation):
    """Anew in every step and at every stage, about the plan of the step before: a Gauss-Newton step of the nonlinear
    problem. One round per step is the real-time iteration; the first step may take more."""

    rounds: int = 1
    first_rounds: int = 1

    def models(self, at, plan):
        return at(plan.states[:-1], plan.inputs)


def _repeated(model: Affine, stages: int) -> Affine:
    parts = (np.asarray(part) for part in model)
    return Affine(*(np.broadcast_to(part, (stages, *part.shape[1:])) for part in parts))


class MPC:
    """A controller: the present state in, the input for the next interval out.

    Half of the states are coordinates and half velocities, unless `coordinates` says how many. Without a reference the
    origin is wanted; the input wanted beside it, `input_reference`, is zero unless given.
    `tolerance` is that of the quadratic programme.
    """

    def __init__(
        self,
        field: AbstractField,
        problem: Problem,
        *,
        linearisation: AbstractLinearisation | None = None,
        scheme: Scheme = "exact",
        reference: Reference | None = None,
        input_reference: Float[np.ndarray, " inputs"] | None = None,
        coordinates: int | None = None,
        tolerance: float = 1e-10,
    ):
        n, m = problem.states, problem.inputs
        self._at = jax.jit(jax.vmap(interval_model(field, problem.dt, scheme=scheme, coordinates=coordinates)))
        self.problem = problem
        self.linearisation = AtPoint() if linearisation is None else linearisation
        self.reference = reference or (lambda ts: np.zeros((len(ts), n)))
        self.input_reference = np.zeros(m) if input_reference is None else np.asarray(input_reference, float)
        self.plan: Plan | None = None
        self.seconds: list[tuple[float, float]] = []  # of every step: linearising, and updating and solving
        self._qp = HorizonQP(problem, tolerance=tolerance)
        self._ahead = problem.dt * np.arange(problem.horizon + 1)
        self._check_model(n, m)

    def _check_model(self, n: int, m: int) -> None:
        """A model of other states, or one that was learned without the input or does not feel it, cannot be steered."""
        try:
            effect = np.asarray(self._models(np.zeros((1, n)), np.zeros((1, m))).b)
        except (TypeError, ValueError, IndexError):
            raise InputError(
                f"the model does not take {n} states and {m} inputs, as the weights do: learn it from data with them"
            ) from None
        felt = np.any(effect[0] != 0, axis=0)
        if not np.all(felt):
            raise InputError(
                f"the model does not feel its input {int(np.argmin(felt))}: learn it from data in which that varies"
            )

    def _models(self, states, inputs) -> Affine:
        with jax.enable_x64(True):
            return self._at(states, inputs)

    def reset(self) -> None:
        """Forget the plan and the clock: the next step is a first one."""
        self.plan = None
        self.seconds = []

    def step(self, z: Float[np.ndarray, " states"], t: float = 0.0) -> Float[np.ndarray, " inputs"]:
        """The input to apply from `t` on, where the state is `z`; the plan behind it is kept in `plan`."""
        z = np.asarray(z, float)
        wanted = np.asarray(self.reference(t + self._ahead), float)
        wanted_inputs = np.broadcast_to(self.input_reference, (self.problem.horizon, self.problem.inputs))
        rounds = self.linearisation.rounds
        if self.plan is None:
            rounds = self.linearisation.first_rounds
            self.plan = Plan(np.broadcast_to(z, wanted.shape), wanted_inputs)
        plan = Plan(np.concatenate([z[None], self.plan.states[1:]]), self.plan.inputs)
        linearising = solving = 0.0
        for _ in range(rounds):
            began = time.perf_counter()
            models = self.linearisation.models(self._models, plan)
            if models is not None:
                models = Affine(*map(np.asarray, models))
            between = time.perf_counter()
            self._qp.update(models, z, wanted, wanted_inputs)
            states, inputs = self._qp.solve()
            plan = Plan(np.concatenate([z[None], states]), inputs)
            linearising, solving = linearising + between - began, solving + time.perf_counter() - between
        self.seconds.append((linearising, solving))
        self.plan = plan.shifted()
        return plan.inputs[0]


def riccati(model: Affine, state_weight: np.ndarray, input_weight: np.ndarray) -> Float[np.ndarray, "states states"]:
    """The cost to go of the unbounded problem without end: the end weight that makes a short horizon act as a long one.

    Solves the discrete algebraic Riccati equation of `z+ = a z + b u`.
    """
    return scipy.linalg.solve_discrete_are(np.asarray(model.a), np.asarray(model.b), state_weight, input_weight)
