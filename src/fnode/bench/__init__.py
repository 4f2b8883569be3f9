"""Experiments, run cell by cell and kept."""

from fnode.bench.energy_table import EnergyTable
from fnode.bench.error_table import ErrorTable
from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.bench.friction_depth import FrictionDepth
from fnode.bench.label_study import LabelStudy
from fnode.bench.run import run_bench
from fnode.bench.store import Store

STUDIES = (LabelStudy(), FrictionDepth(), EnergyTable(), ErrorTable())
EXPERIMENTS: dict[str, AbstractExperiment] = {study.name: study for study in STUDIES}

__all__ = [
    "EXPERIMENTS",
    "AbstractExperiment",
    "Cell",
    "EnergyTable",
    "ErrorTable",
    "FrictionDepth",
    "Heading",
    "LabelStudy",
    "Store",
    "run_bench",
]
