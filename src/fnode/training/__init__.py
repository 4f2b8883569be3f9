"""From labelled samples to a trained model."""

from fnode.training.adam import Adam
from fnode.training.closed_form import LibraryFit, sought
from fnode.training.compilation import CompileClock, compiled
from fnode.training.fit import Diverged, Fit, Progress, check_batch, fit
from fnode.training.least_squares import LeastSquares, Solution
from fnode.training.losses import (
    DerivativeLoss,
    HamiltonLoss,
    Huber,
    Labelled,
    RateLoss,
    SquaredError,
    derivative_residual,
    weighted_residual,
)
from fnode.training.shooting import ShootingResidual, Shot
from fnode.training.start import estimated_start, noise_of
from fnode.training.windows import InstantLoss, NextStateLoss, TrajectoryLoss, check_even, instants, windows

__all__ = [
    "Adam",
    "CompileClock",
    "DerivativeLoss",
    "Diverged",
    "Fit",
    "HamiltonLoss",
    "Huber",
    "InstantLoss",
    "Labelled",
    "LeastSquares",
    "LibraryFit",
    "NextStateLoss",
    "Progress",
    "RateLoss",
    "ShootingResidual",
    "Shot",
    "Solution",
    "SquaredError",
    "TrajectoryLoss",
    "check_batch",
    "check_even",
    "compiled",
    "derivative_residual",
    "estimated_start",
    "fit",
    "instants",
    "noise_of",
    "sought",
    "weighted_residual",
    "windows",
]
