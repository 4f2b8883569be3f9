"""How noisy samples are, measured without any model of the signal."""

import math

import numpy as np

ORDERS = (2, 4, 6, 8, 10)


def disturbances(ts: np.ndarray, y: np.ndarray, order: int) -> np.ndarray:
    """What a polynomial of degree `order - 1` cannot explain in each run of `order + 1` samples.

    A divided difference, with weights of unit norm: white noise keeps its standard deviation, on any grid.
    """
    count = len(ts) - order
    t = [ts[j : count + j] for j in range(order + 1)]
    reach = t[-1] - t[0]
    weights = np.ones((order + 1, count))
    for j in range(order + 1):
        for m in range(j):
            gap = (t[j] - t[m]) / reach
            weights[j] /= gap
            weights[m] /= -gap
    size = np.sqrt(np.sum(weights**2, axis=0))
    return sum(weights[j] * y[j : count + j] for j in range(order + 1)) / size


def robust_sd(x: np.ndarray) -> float:
    """The standard deviation that the median magnitude of normal numbers implies: spikes do not move it."""
    return 1.4826 * float(np.median(np.abs(x)))


def measured_noise(ts: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The standard deviation of the noise, and the size of the largest single disturbance.

    Both are the least over several orders of difference: a smooth signal vanishes from high differences, noise does
    not. Rounded data has a floor: a twelfth of the square of the smallest step between values that repeat.
    """
    found = [disturbances(ts, y, order) for order in ORDERS if len(ts) >= 2 * order]
    noise = min((robust_sd(d) for d in found), default=0.0)
    largest = min((float(np.max(np.abs(d))) for d in found), default=0.0)
    steps = np.abs(np.diff(y))
    moving = steps > 0
    if np.any(moving) and np.mean(moving) < 0.8:
        noise = max(noise, float(np.min(steps[moving])) / math.sqrt(12.0))
    return noise, largest
