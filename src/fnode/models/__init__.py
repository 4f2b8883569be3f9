"""Learned fields and forecasters."""

from fnode.models.fcnn import FCNN
from fnode.models.features import Features
from fnode.models.fnode import FNODE, observation
from fnode.models.forecaster import AbstractForecaster, RolledOut
from fnode.models.hnn import HNN
from fnode.models.lagrangian import LearnedLagrangian
from fnode.models.library import Library, Load, Resistance, empty_library, of_degree, of_joints, trimmed
from fnode.models.library_network import LibraryNetwork
from fnode.models.lnn import LNN
from fnode.models.lstm import LSTM
from fnode.models.network import perceptron
from fnode.models.polynomial import Polynomial
from fnode.models.quadratic import Quadratic
from fnode.models.rates import Kinematics, Rates, learned_rates, rate_observation
from fnode.models.scaler import Scaler
from fnode.models.trainable import is_trainable

__all__ = [
    "FCNN",
    "FNODE",
    "HNN",
    "LNN",
    "LSTM",
    "AbstractForecaster",
    "Features",
    "Kinematics",
    "LearnedLagrangian",
    "Library",
    "LibraryNetwork",
    "Load",
    "Polynomial",
    "Quadratic",
    "Rates",
    "Resistance",
    "RolledOut",
    "Scaler",
    "empty_library",
    "is_trainable",
    "learned_rates",
    "observation",
    "of_degree",
    "of_joints",
    "perceptron",
    "rate_observation",
    "trimmed",
]
