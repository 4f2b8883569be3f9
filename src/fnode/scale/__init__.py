"""Learning from more data than fits into memory, on more than one machine."""

from fnode.scale.design import DESIGNS, AbstractDesign, Grid, Random, Sobol
from fnode.scale.fit import Lost, fit_stream
from fnode.scale.shards import ShardStream
from fnode.scale.shuffle import Shuffle
from fnode.scale.stream import CHUNK, AbstractStream, SimulatedStream, simulate_side_by_side

__all__ = [
    "CHUNK",
    "DESIGNS",
    "AbstractDesign",
    "AbstractStream",
    "Grid",
    "Lost",
    "Random",
    "ShardStream",
    "Shuffle",
    "SimulatedStream",
    "Sobol",
    "fit_stream",
    "simulate_side_by_side",
]
