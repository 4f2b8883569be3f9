"""The differentiators by name."""

from fnode.derivatives._base import AbstractDerivative
from fnode.derivatives.auto import ADAPTIVE, Auto
from fnode.derivatives.difference import Difference
from fnode.derivatives.fourier import Fourier
from fnode.derivatives.gaussian_process import GaussianProcess
from fnode.derivatives.hybrid import Hybrid
from fnode.derivatives.savgol import SavitzkyGolay
from fnode.derivatives.smoothing_spline import SmoothingSpline
from fnode.derivatives.spline import InterpolatingSpline
from fnode.errors import choose

DERIVATIVES: dict[str, AbstractDerivative] = {
    "difference3": Difference(order=2, end_order=1),
    "difference3_second_order_ends": Difference(order=2, end_order=2),
    "difference5": Difference(order=4, end_order=4),
    "difference": Difference(order=8, end_order=8),
    "fft": Fourier(),
    "hybrid": Hybrid(),
    "spline": InterpolatingSpline(),
    "smoothing_spline": SmoothingSpline(),
    "adaptive_spline": ADAPTIVE,
    "savgol": SavitzkyGolay(),
    "gp": GaussianProcess(),
    "auto": Auto(),
}


def derivative_named(name: str) -> AbstractDerivative:
    """The differentiator with this name, or an error that lists the names there are."""
    return DERIVATIVES[choose("derivative", name, DERIVATIVES)]
