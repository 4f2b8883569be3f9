"""The spline through every sample: the best there is for clean data, and no good for noise."""

import dataclasses
from typing import ClassVar

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline

from fnode.derivatives._base import AbstractSmoother, Curve
from fnode.derivatives._noise import measured_noise


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interpolant(Curve):
    """A spline through the samples, and one of lower degree to judge it by."""

    spline: BSpline
    rougher: BSpline
    step: float

    def at(self, ts, order=0):
        value = self.spline(ts, order)
        return value, np.hypot(value - self.rougher(ts, order), self.noise / self.step**order)


@dataclasses.dataclass(frozen=True)
class InterpolatingSpline(AbstractSmoother):
    """A spline of odd degree through every sample; second derivatives take two degrees more.

    Its error is judged by the distance to the spline two degrees lower, and by the measured noise over the time step.
    """

    degree: int = 7

    linear: ClassVar[bool] = True

    @property
    def minimum(self) -> int:
        return self.degree + 3

    def fit(self, ts, y, order):
        degree = min(self.degree + 2 * (order - 1), len(ts) - 2 + len(ts) % 2 - 1)
        spline, rougher = (make_interp_spline(ts, y, k) for k in (degree, degree - 2))
        noise, _ = measured_noise(ts, y)
        step = float(np.median(np.diff(ts)))
        return Interpolant(
            name="spline", noise=noise, freedom=float(len(ts)), spline=spline, rougher=rougher, step=step
        )
