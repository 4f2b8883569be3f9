"""What a controller is asked to do: weights, bounds, horizon. Checked once, so that the solver need not."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from fnode.errors import InputError

Bounds = tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]
Weight = Float[np.ndarray, "_ _"]


@dataclasses.dataclass(frozen=True)
class Problem:
    """The paper's problem (its Eq. for MPC) with what it leaves open spelled out:

        minimise    sum over k < N of  z_k' Q z_k + u_k' R u_k,  plus  z_N' E z_N
        subject to  z_{k+1} = A_k z_k + B_k u_k + c_k,   z_k and u_k within bounds,   z_N = 0 where `terminal`,

    with `z` and `u` counted from their references. `Q`, `R` and `E` are `state_weight`, `input_weight` and
    `end_weight` (none in the paper). `soft` is the price of one unit of violated state bound or terminal constraint;
    without it they are hard, and a problem without a solution stops the controller.
    """

    dt: float
    horizon: int
    state_weight: Weight
    input_weight: Weight
    end_weight: Weight | None = None
    state_bounds: Bounds | None = None
    input_bounds: Bounds | None = None
    terminal: bool = False
    soft: float | None = None

    def __post_init__(self):
        if not (math.isfinite(self.dt) and self.dt > 0):
            raise InputError(f"got a control interval of {self.dt:g} s: need dt > 0")
        if self.horizon < 1 or int(self.horizon) != self.horizon:
            raise InputError(f"got a horizon of {self.horizon:g} steps: need a whole number, at least 1")
        if self.soft is not None and not (math.isfinite(self.soft) and self.soft > 0):
            raise InputError(f"got a penalty of {self.soft:g} for violated bounds: need a positive one, or none")
        _check_weight("state_weight", self.state_weight, definite=False)
        _check_weight("input_weight", self.input_weight, definite=True)
        if self.end_weight is not None:
            _check_weight("end_weight", self.end_weight, definite=False)
            if np.shape(self.end_weight) != np.shape(self.state_weight):
                raise InputError(
                    f"end_weight is {_size(self.end_weight)}, state_weight {_size(self.state_weight)}: "
                    "both weigh the same states"
                )
        for name, bounds, size in (
            ("state_bounds", self.state_bounds, self.states),
            ("input_bounds", self.input_bounds, self.inputs),
        ):
            if bounds is not None:
                _check_bounds(name, bounds, size)

    @property
    def states(self) -> int:
        return np.shape(self.state_weight)[0]

    @property
    def inputs(self) -> int:
        return np.shape(self.input_weight)[0]

    def limits(self, which: str) -> Bounds:
        """Lower and upper bounds of the `states` or the `inputs`; infinite where there are none."""
        bounds, size = (self.state_bounds, self.states) if which == "states" else (self.input_bounds, self.inputs)
        if bounds is None:
            return np.full(size, -np.inf), np.full(size, np.inf)
        return np.asarray(bounds[0], float), np.asarray(bounds[1], float)

    def check_start(self, z: Float[np.ndarray, " states"], names: tuple[str, ...] = ()) -> None:
        """An error when hard bounds exclude the state to start from."""
        low, high = self.limits("states")
        if not np.all(np.isfinite(z)):
            raise InputError(f"the start is not finite: got {np.asarray(z).tolist()}")
        outside = np.flatnonzero((z < low) | (z > high))
        if self.soft is None and outside.size:
            i = int(outside[0])
            name = names[i] if names else f"state {i}"
            raise InputError(
                f"the bounds exclude the start: {name} = {z[i]:g} is not within [{low[i]:g}, {high[i]:g}]; "
                "start inside, widen the bounds or make them soft"
            )


def _check_weight(name: str, weight: np.ndarray, *, definite: bool) -> None:
    weight = np.asarray(weight, float)
    if weight.ndim != 2 or weight.shape[0] != weight.shape[1] or not np.all(np.isfinite(weight)):
        raise InputError(f"{name} is {_size(weight)}: need a square matrix of finite numbers")
    scale = np.abs(weight).max(initial=0.0)
    if np.abs(weight - weight.T).max(initial=0.0) > 1e-12 * scale:
        raise InputError(f"{name} is not symmetric: use (W + W') / 2")
    lowest = float(np.linalg.eigvalsh(weight).min(initial=np.inf))
    if lowest < -1e-12 * scale or (definite and not lowest > 0):
        kind = "positive definite" if definite else "positive semidefinite"
        raise InputError(f"{name} has the eigenvalue {lowest:g}: need a {kind} matrix, or the optimum is not unique")


def _check_bounds(name: str, bounds: Bounds, size: int) -> None:
    low, high = (np.asarray(side, float) for side in bounds)
    if low.shape != (size,) or high.shape != (size,):
        raise InputError(f"{name} has {low.size} lower and {high.size} upper values: need {size} of each")
    if not np.all(low < high):
        i = int(np.argmax(~(low < high)))
        raise InputError(f"{name} of component {i} are [{low[i]:g}, {high[i]:g}]: need lower < upper")


def _size(weight) -> str:
    return " x ".join(map(str, np.shape(weight))) or "a number"
