"""From labelled samples to a trained model."""

from fnode.training.adam import Adam
from fnode.training.closed_form import LibraryFit
from fnode.training.fit import Diverged, Fit, Progress, check_batch, fit
from fnode.training.least_squares import LeastSquares, Solution
from fnode.training.losses import DerivativeLoss, Huber, Labelled, SquaredError, derivative_residual, weighted_residual
from fnode.training.shooting import Shooting, ShootingResidual, Window

__all__ = [
    "Adam",
    "DerivativeLoss",
    "Diverged",
    "Fit",
    "Huber",
    "Labelled",
    "LeastSquares",
    "LibraryFit",
    "Progress",
    "Shooting",
    "ShootingResidual",
    "Solution",
    "SquaredError",
    "Window",
    "check_batch",
    "derivative_residual",
    "fit",
    "weighted_residual",
]
