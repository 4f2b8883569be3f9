"""What every differentiator offers: samples in, derivatives out."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from fnode.errors import InputError


@dataclasses.dataclass(frozen=True)
class Derivative:
    """Derivatives of sampled signals, with the variance of their error where the method knows it."""

    value: Float[np.ndarray, "samples channels"]
    variance: Float[np.ndarray, "samples channels"] | None = None


@dataclasses.dataclass(frozen=True)
class AbstractDerivative(abc.ABC):
    """A way to differentiate sampled signals, one channel per column.

    `minimum` is how many samples it needs; `irregular` says whether it takes times that are not evenly spaced.
    """

    irregular: ClassVar[bool]

    @property
    @abc.abstractmethod
    def minimum(self) -> int:
        """How many samples the method needs."""

    @abc.abstractmethod
    def differentiate(self, ts: np.ndarray, ys: np.ndarray) -> Derivative:
        """First time derivatives at every sample; times and sizes are already checked."""

    def __call__(self, ts: Float[np.ndarray, " samples"], ys: Float[np.ndarray, "samples channels"]) -> Derivative:
        if len(ts) < self.minimum:
            raise InputError(
                f"got {len(ts)} samples, but this differentiation needs at least {self.minimum}: give more samples"
            )
        steps = np.diff(ts)
        if not self.irregular and np.ptp(steps) > 1e-6 * np.mean(steps):
            raise InputError(
                f"times are not evenly spaced (steps from {steps.min():g} to {steps.max():g}), but this "
                f"differentiation needs even steps: choose a method that takes irregular times, such as 'difference'"
            )
        return self.differentiate(ts, ys)
