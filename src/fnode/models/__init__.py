"""Learned fields and forecasters."""

from fnode.models.fcnn import FCNN
from fnode.models.features import Features
from fnode.models.fnode import FNODE, observation
from fnode.models.forecaster import AbstractForecaster, RolledOut
from fnode.models.hnn import HNN
from fnode.models.lagrangian import LearnedLagrangian
from fnode.models.library import Library, Resistance, empty_library
from fnode.models.library_network import LibraryNetwork
from fnode.models.lnn import LNN
from fnode.models.lstm import LSTM
from fnode.models.network import perceptron
from fnode.models.quadratic import Quadratic
from fnode.models.scaler import Scaler, is_trainable

__all__ = [
    "FCNN",
    "FNODE",
    "HNN",
    "LNN",
    "LSTM",
    "AbstractForecaster",
    "Features",
    "LearnedLagrangian",
    "Library",
    "LibraryNetwork",
    "Quadratic",
    "Resistance",
    "RolledOut",
    "Scaler",
    "empty_library",
    "is_trainable",
    "observation",
    "perceptron",
]
