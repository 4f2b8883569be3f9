"""What can be said of labels without knowing the truth."""

import dataclasses

import numpy as np

from fnode.derivatives.difference import Difference


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """One channel of labels: how it was made, how noisy its samples were, how wrong it may be.

    `noise` and `freedom` belong to the curve behind the labels, `error` is the root mean square of the labels' own
    standard deviations; all are None for methods that know nothing of noise. `eta_prime` and `eta_z` are the
    paper's indicators. `outliers` are samples left aside, `bridged` samples that were missing and labelled all the
    same, `unlabelled` those without a label, `stretches` how many pieces the record was cut into.
    """

    method: str
    source: str
    noise: float | None
    noise_relative: float | None
    freedom: float | None
    error: float | None
    error_relative: float | None
    eta_prime: float
    eta_z: float | None
    outliers: tuple[int, ...]
    bridged: int
    unlabelled: int
    stretches: int


def eta_prime(ts: np.ndarray, z: np.ndarray, order: int = 1) -> float:
    """How far three-point and five-point differences disagree: `|z'_5 - z'_3| / |z'_5|`.

    It measures the truncation error of the three-point differences on clean data, and noise on noisy data.
    """
    if len(ts) < 5:
        return 0.0
    column = (z - z[0])[:, None]
    three = Difference(2, 1).differentiate(ts, column, order).value
    five = Difference(4, 4).differentiate(ts, column, order).value
    return ratio(five - three, five)


def eta_z(ts: np.ndarray, z: np.ndarray, rate: np.ndarray) -> float:
    """How far the signal is from the sum of its rates: `|z - z~| / |z|` with `z~_{i+1} = z~_i + dt z'_i`.

    The sum is Euler's, as in the paper, so it is of first order in the time step even for perfect rates.
    """
    summed = z[0] + np.concatenate([[0.0], np.cumsum(np.diff(ts) * rate[:-1])])
    return ratio(z - summed, z)


def ratio(part: np.ndarray, whole: np.ndarray) -> float:
    """The size of one signal relative to another; zero when both vanish."""
    size = float(np.max(np.abs(whole), initial=0.0))
    if size == 0:
        return 0.0 if not np.any(part) else float("inf")
    return float(np.linalg.norm(part / size) / np.linalg.norm(whole / size))
