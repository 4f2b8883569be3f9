"""Where the error of a learned motion comes from: labels, field or integrator (the paper's error propagation)."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.derivatives import derivative_named
from fnode.metrics import mse
from fnode.solvers import RK4, rollout
from fnode.systems import AbstractSystem
from fnode.trajectory import Trajectory

FIRST_ORDER_ENDS, SECOND_ORDER_ENDS = "difference3", "difference3_second_order_ends"


def step_counts(duration: float, shortest: float, longest: float, count: int) -> list[int]:
    """How many steps make up `duration`, for `count` step sizes in even ratios: whole numbers, so that it is met."""
    return [int(n) for n in np.round(np.geomspace(duration / longest, duration / shortest, count))]


def even_times(duration: float, steps: int) -> Float[Array, " samples"]:
    """The ends of equal steps, each as exact as its number allows."""
    return duration * jnp.arange(steps + 1) / steps


def acceleration_errors(motion: Trajectory) -> dict[str, float]:
    """Mean squared errors of three-point differences of the velocities, split into ends and interior.

    Both parts are sums over their samples divided by the number of *all* samples, so that they add up to the error of
    the whole. Two ends of order q then count as `dt^(2 q + 1)`: there are ever more samples beside them.
    """
    assert motion.a is not None
    ts, v, a = (np.asarray(values) for values in (motion.ts, motion.x.v, motion.a))
    squared = {
        name: np.sum((derivative_named(name)(ts, v).value - a) ** 2, axis=1)
        for name in (FIRST_ORDER_ENDS, SECOND_ORDER_ENDS)
    }
    first, second = (float(squared[name][[0, -1]].sum() / len(ts)) for name in (FIRST_ORDER_ENDS, SECOND_ORDER_ENDS))
    interior = float(squared[FIRST_ORDER_ENDS][1:-1].sum() / len(ts))
    return {
        "boundary, first order": first,
        "boundary, second order": second,
        "interior": interior,
        "overall, first-order ends": interior + first,
        "overall, second-order ends": interior + second,
    }


def integration_error(system: AbstractSystem, motion: Trajectory) -> float:
    """Mean squared error of RK4 with the true field over the whole motion: a global error, not that of single steps."""
    return float(mse(rollout(system, motion.start, motion.ts, solver=RK4), motion.x))


def slope(steps: Float[np.ndarray, " n"], errors: Float[np.ndarray, " n"]) -> float:
    """The power of the step size with which errors shrink: the straight line through their logarithms."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])
