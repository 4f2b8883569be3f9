"""Running experiments: every cell once, whatever interrupts it."""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fnode import io
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading
from fnode.bench.store import Store
from fnode.bench.tasks import compute
from fnode.errors import InputError
from fnode.systems import SYSTEMS

FIGURE_KINDS = ("png", "pdf")  # to look at, and to print
DOTS_PER_INCH = 150


@dataclasses.dataclass(frozen=True)
class Presented:
    """What became of one experiment: its tables and figures, or why there are none."""

    experiment: AbstractExperiment
    cells: int
    seconds: float  # of all its cells, whenever they were computed
    tables: tuple[Heading, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    pending: str | None = None
    failed: tuple[str, ...] = ()


class InThisProcess(concurrent.futures.Executor):
    """Computes a cell when it is asked for: one after the other."""

    def submit(self, fn, /, *args, **kwargs):
        future = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except InputError as error:
            future.set_exception(error)
        return future


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    executor: concurrent.futures.Executor,
    report: Callable[[Cell, int, int], None] = lambda cell, done, total: None,
) -> dict[str, dict[str, Any] | str]:
    """The result of every cell by its key, or the reason why it failed; what the store has is not computed again.

    Executors compute `compute(cell)`, a function known by name that takes and returns plain values, in any process or
    on any machine; this process stores. `report` hears of every finished cell: how many are done, and of how many.
    """
    unique = {cell.key: cell for cell in cells}
    found: dict[str, dict[str, Any] | str] = {}
    missing = []
    for key, cell in unique.items():
        result = store.load(cell)
        if result is None:
            missing.append(cell)
        else:
            found[key] = result
            report(cell, len(found), len(unique))
    waiting = {executor.submit(compute, cell): cell for cell in sorted(missing, key=lambda cell: -cell.weight)}
    for future in concurrent.futures.as_completed(waiting):
        cell = waiting[future]
        try:
            store.save(cell, future.result())
            kept = store.load(cell)
            assert kept is not None
            found[cell.key] = kept
        except InputError as error:
            found[cell.key] = f"{cell.name}: {error}"
        report(cell, len(found), len(unique))
    return found


def run_bench(
    experiments: Sequence[AbstractExperiment],
    folder: Path,
    *,
    seeds: int,
    quick: bool,
    executor: concurrent.futures.Executor | None = None,
    report: Callable[[Cell, int, int], None] = lambda cell, done, total: None,
) -> list[Presented]:
    """Compute what is missing, then write the tables and figures of each experiment; tells what became of each."""
    ready = [experiment for experiment in experiments if pending(experiment) is None]
    needed = {experiment.name: experiment.cells(seeds, quick) for experiment in ready}
    cells = [cell for several in needed.values() for cell in several]
    found = run_cells(cells, Store(folder), executor or InThisProcess(), report)
    presented = []
    for experiment in experiments:
        reason = pending(experiment)
        if reason is not None:
            presented.append(Presented(experiment, 0, 0.0, pending=reason))
            continue
        results = [(cell, found[cell.key]) for cell in needed[experiment.name]]
        failed = tuple(result for _, result in results if isinstance(result, str))
        good = [(cell, result) for cell, result in results if not isinstance(result, str)]
        seconds = sum(result["seconds"] for _, result in good)
        one = Presented(experiment, len(results), seconds, failed=failed)
        if not failed:
            tables, drawings = tuple(experiment.present(good)), tuple(experiment.figures(good))
            one = dataclasses.replace(one, tables=tables, drawings=drawings)
            _write(one, folder)
        presented.append(one)
    return presented


def pending(experiment: AbstractExperiment) -> str | None:
    """Why an experiment cannot be done yet, if that is so."""
    if experiment.needs is None or experiment.needs in SYSTEMS:
        return None
    return f"comes with the system `{experiment.needs}`"


def _write(one: Presented, folder: Path) -> None:
    for drawing in one.drawings:
        for kind in FIGURE_KINDS:
            with io.replacing(folder / f"{drawing.name}.{kind}") as temporary:
                drawing.figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH)
    experiment = one.experiment
    parts = [f"# {experiment.title}\n", *(heading.markdown() for heading in one.tables)]
    parts += [f"![{drawing.name}]({drawing.name}.png)\n\n{drawing.caption}\n" for drawing in one.drawings]
    io.write_text(folder / f"{experiment.name}.md", "\n".join(parts))
    if one.tables:
        io.write_text(folder / f"{experiment.name}.tex", "\n".join(heading.latex() for heading in one.tables))
