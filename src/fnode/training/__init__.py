"""From labelled samples to a trained model."""

from fnode.training.adam import Adam
from fnode.training.fit import Diverged, Fit, Progress, check_batch, fit
from fnode.training.losses import DerivativeLoss, Huber, Labelled, SquaredError

__all__ = [
    "Adam",
    "DerivativeLoss",
    "Diverged",
    "Fit",
    "Huber",
    "Labelled",
    "Progress",
    "SquaredError",
    "check_batch",
    "fit",
]
