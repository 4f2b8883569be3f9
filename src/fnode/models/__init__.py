"""Learned fields and forecasters."""

from fnode.models.fcnn import FCNN
from fnode.models.fnode import FNODE, observation
from fnode.models.forecaster import AbstractForecaster, RolledOut
from fnode.models.hnn import HNN
from fnode.models.lnn import LNN
from fnode.models.lstm import LSTM
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler, is_trainable

__all__ = [
    "FCNN",
    "FNODE",
    "HNN",
    "LNN",
    "LSTM",
    "AbstractForecaster",
    "RolledOut",
    "Scaler",
    "is_trainable",
    "observation",
    "perceptron",
]
