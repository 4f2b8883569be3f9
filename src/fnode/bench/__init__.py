"""Experiments, run cell by cell and kept."""

from fnode.bench.cluster import cluster_workers
from fnode.bench.data_efficiency import DataEfficiency
from fnode.bench.energy_table import EnergyTable
from fnode.bench.error_table import ErrorTable
from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.bench.friction_depth import FrictionDepth
from fnode.bench.label_study import LabelStudy
from fnode.bench.run import run_bench
from fnode.bench.store import Store

STUDIES = (LabelStudy(), FrictionDepth(), EnergyTable(), ErrorTable(), DataEfficiency())
EXPERIMENTS: dict[str, AbstractExperiment] = {study.name: study for study in STUDIES}

__all__ = [
    "EXPERIMENTS",
    "AbstractExperiment",
    "Cell",
    "DataEfficiency",
    "EnergyTable",
    "ErrorTable",
    "FrictionDepth",
    "Heading",
    "LabelStudy",
    "Store",
    "cluster_workers",
    "run_bench",
]
