"""Learned fields and forecasters."""

from fnode.models.fnode import FNODE, observation
from fnode.models.forecaster import AbstractForecaster, RolledOut
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler, is_trainable

MODELS = {"fnode": FNODE}

__all__ = ["FNODE", "MODELS", "AbstractForecaster", "RolledOut", "Scaler", "is_trainable", "observation", "perceptron"]
