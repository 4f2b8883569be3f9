"""Learn the dynamics of mechanisms from their trajectories."""

import importlib.metadata

from fnode.errors import InputError
from fnode.io import read
from fnode.learn import learn
from fnode.model import Model
from fnode.trajectory import Column, Columns, State, Trajectory

__version__ = importlib.metadata.version("fnode")
load = Model.load

__all__ = ["Column", "Columns", "InputError", "Model", "State", "Trajectory", "learn", "load", "read"]
