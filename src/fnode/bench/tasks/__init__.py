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
from fnode.learn import Watch
from fnode.run_folder import RunFolder

CHECKPOINT_SECONDS = 20.0  # the states of many large networks take a while to write
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

    Tasks with a `watch` over their training keep in the folder what they need to go on after an interrupt.
    """
    clock, core = time.perf_counter(), time.process_time()
    task = TASKS[cell.task]
    watched = "watch" in inspect.signature(task).parameters
    with jax.enable_x64(True):
        result = task(**cell.inputs, **({"watch": _resuming(folder)} if folder and watched else {}))
    return {**result, "seconds": time.perf_counter() - clock, "seconds_core": time.process_time() - core}


def _resuming(folder: Path) -> Watch:
    folder.mkdir(parents=True, exist_ok=True)
    return RunFolder(folder, CHECKPOINT_SECONDS).watch(resume=True)


def module_of(task: str) -> Path:
    """The file that holds a task."""
    return Path(inspect.getfile(TASKS[task]))
