"""Experiments, run cell by cell and kept."""

from fnode.bench.cluster import cluster_workers
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading
from fnode.bench.page import page
from fnode.bench.run import Presented, finished, needed, run_bench, run_cells
from fnode.bench.store import Store
from fnode.bench.suite import EXPERIMENTS
from fnode.bench.workers import cores, local_workers

__all__ = [
    "EXPERIMENTS",
    "AbstractExperiment",
    "Cell",
    "Drawing",
    "Heading",
    "Presented",
    "Store",
    "cluster_workers",
    "cores",
    "finished",
    "local_workers",
    "needed",
    "page",
    "run_bench",
    "run_cells",
]
