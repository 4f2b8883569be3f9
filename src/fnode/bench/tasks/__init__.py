"""What cells compute, by name: plain values in, plain values and arrays out. No task knows how it is shown."""

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from fnode.bench.experiment import Cell
from fnode.bench.tasks.control import closed_loops
from fnode.bench.tasks.energy import drifts
from fnode.bench.tasks.error_analysis import field_error, label_and_solver_errors
from fnode.bench.tasks.evidence import evidence
from fnode.bench.tasks.friction_depth import acceleration_errors
from fnode.bench.tasks.labels import label_errors, training_effect
from fnode.bench.tasks.learned import learned

TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "learned": learned,
    "energy": drifts,
    "label_and_solver_errors": label_and_solver_errors,
    "field_error": field_error,
    "friction_depth": acceleration_errors,
    "control": closed_loops,
    "label_errors": label_errors,
    "training_effect": training_effect,
    "evidence": evidence,
}


def compute(cell: Cell, folder: Path | None = None) -> dict[str, Any]:
    """The result of a cell, with the seconds it took: by the clock, and of a core.

    Tasks that can go on after an interrupt keep in the folder what they need for that.
    """
    clock, core = time.perf_counter(), time.process_time()
    task = TASKS[cell.task]
    place = {"folder": folder} if "folder" in inspect.signature(task).parameters else {}
    with jax.enable_x64(True):
        result = task(**cell.inputs, **place)
    return {**result, "seconds": time.perf_counter() - clock, "seconds_core": time.process_time() - core}


def module_of(task: str) -> Path:
    """The file that holds a task."""
    return Path(inspect.getfile(TASKS[task]))
