"""What every differentiator offers: samples in, derivatives out."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from fnode.errors import InputError

LARGEST = 1e60  # squares of second derivatives of such values still fit into a float
SMALLEST = 1e-200  # values below are as good as zero
BRIEFEST, LONGEST = 1e-30, 1e30


@dataclasses.dataclass(frozen=True)
class Derivative:
    """Derivatives of sampled signals, with the variance of their error where the method knows it."""

    value: Float[np.ndarray, "samples channels"]
    variance: Float[np.ndarray, "samples channels"] | None = None


@dataclasses.dataclass(frozen=True)
class AbstractDerivative(abc.ABC):
    """A way to differentiate sampled signals, one channel per column.

    `minimum` is how many samples it needs; `irregular` says whether it takes times that are not evenly spaced;
    `linear` says whether the result is a linear function of the samples (no parameter is chosen from them).
    """

    irregular: ClassVar[bool]
    linear: ClassVar[bool]

    @property
    @abc.abstractmethod
    def minimum(self) -> int:
        """How many samples the method needs."""

    @abc.abstractmethod
    def differentiate(self, ts: np.ndarray, ys: np.ndarray, order: int) -> Derivative:
        """Time derivatives of this order (1 or 2) at every sample; times and sizes are already checked."""

    def __call__(
        self, ts: Float[np.ndarray, " samples"], ys: Float[np.ndarray, "samples channels"], *, order: int = 1
    ) -> Derivative:
        ts, ys = np.asarray(ts, float), np.asarray(ys, float)
        if order not in (1, 2):
            raise InputError(f"got derivative order {order}, but labels need 1 or 2")
        if len(ts) < self.minimum:
            raise InputError(
                f"got {len(ts)} samples, but this differentiation needs at least {self.minimum}: give more samples"
            )
        check_times(ts)
        if not np.all(np.abs(ys) <= LARGEST):
            row = int(np.argmin(np.all(np.abs(ys) <= LARGEST, axis=1)))
            raise InputError(
                f"sample {row} (t = {ts[row]:g}) is {ys[row]}, but every value must be finite and below {LARGEST:g}: "
                f"repair it, or use `label`, which bridges gaps"
            )
        steps = np.diff(ts)
        if not self.irregular and np.ptp(steps) > 1e-6 * np.mean(steps):
            raise InputError(
                f"times are not evenly spaced (steps from {steps.min():g} to {steps.max():g}), but this "
                f"differentiation needs even steps: choose a method that takes irregular times, such as 'difference'"
            )
        return self.differentiate(ts, ys, order)


def check_times(ts: np.ndarray) -> None:
    """An error unless the times are finite and increase by steps that their numbers can resolve."""
    finite = np.abs(ts) <= LONGEST
    if not np.all(finite):
        row = int(np.argmin(finite))
        raise InputError(f"time {ts[row]} at sample {row}: every time must be finite and below {LONGEST:g}")
    if len(ts) < 2:
        return
    later = np.diff(ts) > max(1e-12 * max(abs(ts[0]), abs(ts[-1])), BRIEFEST)
    if not np.all(later):
        row = int(np.argmin(later)) + 1
        raise InputError(
            f"times must increase, but sample {row} (t = {ts[row]:g}) does not come after sample {row - 1} "
            f"(t = {ts[row - 1]:g}); sort the rows or remove duplicates"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve(abc.ABC):
    """A smooth function of time behind noisy samples, with its own uncertainty.

    `noise` is the standard deviation of the samples about it, `freedom` how many parameters it spends (the trace of the
    matrix that takes samples to fitted values), `name` the method that drew it, `rejected` the samples it left aside.
    """

    name: str
    noise: float
    freedom: float
    rejected: tuple[int, ...] = ()

    @abc.abstractmethod
    def at(self, ts: np.ndarray, order: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of this order at any times in the record, and the standard deviation of its error."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rescaled(Curve):
    """A curve drawn in units of the record, read in the units of the user."""

    curve: Curve
    start: float
    span: float
    mean: float
    spread: float

    def at(self, ts, order=0):
        value, sd = self.curve.at((ts - self.start) / self.span, order)
        scale = self.spread / self.span**order
        return scale * value + (self.mean if order == 0 else 0.0), scale * sd


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flat(Curve):
    """A channel that does not move: every derivative is zero, as surely as its numbers are rounded."""

    def at(self, ts, order=0):
        return np.zeros(len(ts)), np.full(len(ts), self.noise)


@dataclasses.dataclass(frozen=True)
class AbstractSmoother(AbstractDerivative):
    """A differentiator that first draws a curve through one channel, then differentiates the curve."""

    irregular: ClassVar[bool] = True

    @abc.abstractmethod
    def fit(self, ts: np.ndarray, y: np.ndarray, order: int) -> Curve:
        """The curve of one channel of zero mean and unit spread over a unit of time, for derivatives up to `order`."""

    def draw(self, ts: np.ndarray, y: np.ndarray, order: int = 1) -> Curve:
        """The curve of one channel in any units."""
        start, span = float(ts[0]), float(ts[-1] - ts[0])
        largest = float(np.max(np.abs(y)))
        mean = largest * float(np.mean(y / largest)) if largest > 0 else 0.0
        shifted = y - mean
        reach = float(np.max(np.abs(shifted)))
        rounding = 4 * np.finfo(float).eps * largest
        if reach <= rounding or largest < SMALLEST:
            spread, curve = rounding, Flat(name="constant", noise=1.0, freedom=1.0)
        else:
            spread = reach * float(np.std(shifted / reach))
            curve = self.fit((ts - start) / span, shifted / spread, order)
        return Rescaled(
            name=curve.name,
            noise=spread * curve.noise,
            freedom=curve.freedom,
            rejected=curve.rejected,
            curve=curve,
            start=start,
            span=span,
            mean=mean,
            spread=spread,
        )

    def differentiate(self, ts, ys, order):
        columns = [self.draw(ts, y, order).at(ts, order) for y in ys.T]
        value, sd = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
        return Derivative(value, sd**2)
