"""The cart-pole to be balanced, as in the paper, and to be swung up from hanging."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Float

from fnode.control.linearise import Scheme, interval_model
from fnode.control.mpc import MPC, AbstractLinearisation, AlongPlan, AtPoint, AtState, riccati
from fnode.control.problem import Problem
from fnode.errors import InputError, choose
from fnode.field import AbstractField

STATES = ("x", "theta", "d_x", "d_theta")
LINEARISATIONS: dict[str, type[AbstractLinearisation]] = {"fixed": AtPoint, "state": AtState, "plan": AlongPlan}


class Balance(pydantic.BaseModel):
    """The paper's test: bring cart and pole to rest in the origin. Every number can be set by name.

    The paper's text leaves out the terminal constraint and the bounds; these are its code's, with one `|u| <= 50 N` and
    one gravity for both controllers. Weights are the diagonal or all elements of a matrix, row by row, for
    `x, theta, d_x, d_theta`.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dt: float = 0.05
    horizon: int = 50
    steps: int = 200
    discretisation: Scheme = "euler"
    linearisation: str = "fixed"
    state_weight: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    input_weight: float = 1.0
    terminal: bool = True
    soft: float | None = None
    x_max: float = 10.0
    theta_max: float = math.pi / 2
    u_max: float = 50.0
    x: float = 1.0
    theta: float = math.pi / 6
    d_x: float = 0.0
    d_theta: float = 0.0

    @classmethod
    def of(cls, values: dict) -> "Balance":
        """The test with some of its numbers changed, or an error in one line."""
        try:
            task = cls.model_validate(values)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"--set {first['loc'][0]}={first['input']}: {first['msg']}") from None
        choose("linearisation", task.linearisation, LINEARISATIONS)
        task.problem.check_start(task.start, STATES)
        return task

    @property
    def start(self) -> Float[np.ndarray, " 4"]:
        return np.array([self.x, self.theta, self.d_x, self.d_theta])

    @property
    def problem(self) -> Problem:
        high = np.array([self.x_max, self.theta_max, np.inf, np.inf])
        return Problem(
            dt=self.dt,
            horizon=self.horizon,
            state_weight=_matrix(self.state_weight),
            input_weight=np.array([[self.input_weight]]),
            state_bounds=(-high, high),
            input_bounds=(np.array([-self.u_max]), np.array([self.u_max])),
            terminal=self.terminal,
            soft=self.soft,
        )

    def controller(self, field: AbstractField) -> MPC:
        """A controller that believes in `field`."""
        linearisation = LINEARISATIONS[self.linearisation]()
        return MPC(field, self.problem, linearisation=linearisation, scheme=self.discretisation)


DT, HORIZON = 0.05, 50
SWING_STEPS = 120
STATE_WEIGHT, INPUT_WEIGHT = np.diag([1.0, 1.0, 0.1, 0.1]), np.array([[0.1]])
FORCE = 20.0  # N, at most: less than the weight of cart and pole


def swing_up(field: AbstractField) -> MPC:
    """A controller that swings the pole up from hanging with a bounded force: the real-time iteration on `field`.

    The weight at the end of the horizon is the Riccati solution at upright, where the motion should lead.
    """
    upright = jax.jit(interval_model(field, DT, scheme="rk4"))(jnp.zeros(4), jnp.zeros(1))
    problem = Problem(
        dt=DT,
        horizon=HORIZON,
        state_weight=STATE_WEIGHT,
        input_weight=INPUT_WEIGHT,
        end_weight=riccati(upright, STATE_WEIGHT, INPUT_WEIGHT),
        input_bounds=(np.array([-FORCE]), np.array([FORCE])),
    )
    return MPC(field, problem, linearisation=AlongPlan(first_rounds=10), scheme="rk4", tolerance=1e-8)


def hanging(count: int, *, spread: float = 0.05, seed: int = 0) -> Float[np.ndarray, "count 4"]:
    """Starts at rest below the cart, each moved a little at random."""
    return np.array([0.0, np.pi, 0.0, 0.0]) + spread * np.random.default_rng(seed).normal(size=(count, 4))


def _matrix(weight: tuple[float, ...]) -> Float[np.ndarray, "states states"]:
    n = len(STATES)
    if len(weight) not in (n, n * n):
        raise InputError(f"state_weight has {len(weight)} numbers: need {n} (a diagonal) or {n * n} (a matrix)")
    return np.diag(weight) if len(weight) == n else np.array(weight).reshape(n, n)
