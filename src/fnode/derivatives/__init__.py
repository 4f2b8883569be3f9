"""Turning trajectories into derivatives, one method per file."""

from fnode.derivatives._base import LARGEST, AbstractDerivative, AbstractSmoother, Curve, Derivative
from fnode.derivatives._noise import disturbances, measured_noise, robust_sd
from fnode.derivatives._registry import DERIVATIVES, derivative_named
from fnode.derivatives.agreement import Agreement, agreement
from fnode.derivatives.auto import Auto
from fnode.derivatives.diagnostics import Diagnosis, eta_prime, eta_z
from fnode.derivatives.difference import Difference
from fnode.derivatives.fourier import Fourier
from fnode.derivatives.gaussian_process import GaussianProcess
from fnode.derivatives.hybrid import Hybrid
from fnode.derivatives.labels import Estimate, Labels, label
from fnode.derivatives.savgol import SavitzkyGolay
from fnode.derivatives.smoothing_spline import SmoothingSpline
from fnode.derivatives.spline import InterpolatingSpline
from fnode.derivatives.states import estimated, label_of, positions_only

__all__ = [
    "DERIVATIVES",
    "LARGEST",
    "AbstractDerivative",
    "AbstractSmoother",
    "Agreement",
    "Auto",
    "Curve",
    "Derivative",
    "Diagnosis",
    "Difference",
    "Estimate",
    "Fourier",
    "GaussianProcess",
    "Hybrid",
    "InterpolatingSpline",
    "Labels",
    "SavitzkyGolay",
    "SmoothingSpline",
    "agreement",
    "derivative_named",
    "disturbances",
    "estimated",
    "eta_prime",
    "eta_z",
    "label",
    "label_of",
    "measured_noise",
    "positions_only",
    "robust_sd",
]
