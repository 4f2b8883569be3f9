"""From labelled samples to a trained model."""

from fnode.training.adam import Adam
from fnode.training.fit import Diverged, Fit, Progress, check_batch, fit
from fnode.training.losses import DerivativeLoss, HamiltonLoss, Huber, Labelled, SquaredError
from fnode.training.windows import InstantLoss, NextStateLoss, TrajectoryLoss, check_even, instants, windows

__all__ = [
    "Adam",
    "DerivativeLoss",
    "Diverged",
    "Fit",
    "HamiltonLoss",
    "Huber",
    "InstantLoss",
    "Labelled",
    "NextStateLoss",
    "Progress",
    "SquaredError",
    "TrajectoryLoss",
    "check_batch",
    "check_even",
    "fit",
    "instants",
    "windows",
]
