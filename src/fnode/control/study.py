"""The analytic controller and the learned one on the same plant: what the report of `fnode control` shows."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fnode.control.cart_pole import SWING_STEPS, Balance, hanging, swing_up
from fnode.control.closed_loop import ClosedLoop, closed_loop, field_plant
from fnode.control.linearise import Affine, linearise, structured
from fnode.control.qp import InfeasibleError
from fnode.field import AbstractField

SWING_STARTS = 10
SETTLED, SWUNG_UP = 0.01, 0.05  # distance of the state from the origin


@dataclasses.dataclass(frozen=True)
class Controlled:
    """What one model made of the task: its linearisation at upright, the balancing, and the swing-ups.

    A swing-up is missing where its quadratic programme had no solution.
    """

    upright: Affine
    balance: ClosedLoop
    swings: tuple[ClosedLoop | None, ...]


def control_cart_pole(
    plant_field: AbstractField,
    field: AbstractField,
    task: Balance,
    *,
    swings: int = SWING_STARTS,
    told: Callable[[], None] = lambda: None,
) -> Controlled:
    """Control the plant with a model of it; `told` hears of every finished closed loop."""
    plant = field_plant(plant_field, task.dt)
    controller = task.controller(field)
    controller.step(task.start)  # compiles, and is not timed
    balance = closed_loop(controller, plant, task.start, steps=task.steps)
    told()
    swung = []
    if swings:
        controller = swing_up(field)
        plant = field_plant(plant_field, controller.problem.dt)
        for start in hanging(swings):
            try:
                swung.append(closed_loop(controller, plant, start, steps=SWING_STEPS))
            except InfeasibleError:
                swung.append(None)
            told()
    upright = Affine(*map(np.asarray, linearise(field, structured(jnp.zeros(4)), jnp.zeros(1))))
    return Controlled(upright, balance, tuple(swung))


def relative_error(found: ArrayLike, true: ArrayLike) -> float:
    """Frobenius norm of the error, in units of the truth's."""
    return float(np.linalg.norm(np.asarray(found) - np.asarray(true)) / np.linalg.norm(true))


def figures(found: dict[str, Controlled]) -> dict:
    """The field `control` of `scores.json`; errors of linear models are relative to the first entry's."""
    truth = next(iter(found.values())).upright
    return {
        name: {
            "first_input": float(one.balance.inputs[0, 0]),
            "peak_input": float(np.abs(one.balance.inputs).max()),
            "settling_time": one.balance.settling_time(within=SETTLED),
            "final_distance": float(np.linalg.norm(one.balance.states[-1])),
            "solve_ms": _milliseconds(one.balance.seconds[:, 1]),
            "step_ms": _milliseconds(one.balance.seconds.sum(axis=1)),
            "linearisation": {
                "a": np.asarray(one.upright.a).tolist(),
                "b": np.asarray(one.upright.b).tolist(),
                "error_a": relative_error(one.upright.a, truth.a),
                "error_b": relative_error(one.upright.b, truth.b),
                "affine": float(np.linalg.norm(one.upright.c)),
            },
            "swing_up": _swings(one.swings),
        }
        for name, one in found.items()
    }


def _swings(swings: tuple[ClosedLoop | None, ...]) -> dict | None:
    if not swings:
        return None
    done = [swing for swing in swings if swing is not None]
    times = [time for swing in done if (time := swing.settling_time(within=SWUNG_UP)) is not None]
    seconds = [swing.seconds[1:].sum(axis=1) for swing in done]  # the first step takes more rounds
    return {
        "starts": len(swings),
        "succeeded": len(times),
        "settling_time": float(np.median(times)) if times else None,
        "peak_input": max((float(np.abs(swing.inputs).max()) for swing in done), default=None),
        "step_ms": _milliseconds(np.concatenate(seconds)) if seconds else None,
    }


def _milliseconds(seconds: np.ndarray) -> dict[str, float]:
    return {"median": 1e3 * float(np.median(seconds)), "p99": 1e3 * float(np.percentile(seconds, 99))}
