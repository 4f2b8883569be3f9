"""Experiments, run cell by cell and kept."""

from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.bench.label_study import LabelStudy
from fnode.bench.run import run_bench
from fnode.bench.store import Store

EXPERIMENTS: dict[str, AbstractExperiment] = {experiment.name: experiment for experiment in (LabelStudy(),)}

__all__ = ["EXPERIMENTS", "AbstractExperiment", "Cell", "Heading", "LabelStudy", "Store", "run_bench"]
