"""Learned fields and forecasters."""

from fnode.models.features import Features
from fnode.models.fnode import FNODE, observation
from fnode.models.forecaster import AbstractForecaster, RolledOut
from fnode.models.lagrangian import LearnedLagrangian
from fnode.models.library import Library, empty_library
from fnode.models.library_network import LibraryNetwork
from fnode.models.network import perceptron
from fnode.models.quadratic import Quadratic
from fnode.models.scaler import Scaler, is_trainable

MODELS = {"fnode": FNODE}

__all__ = [
    "FNODE",
    "MODELS",
    "AbstractForecaster",
    "Features",
    "LearnedLagrangian",
    "Library",
    "LibraryNetwork",
    "Quadratic",
    "RolledOut",
    "Scaler",
    "empty_library",
    "is_trainable",
    "observation",
    "perceptron",
]
