"""Running experiments: every cell once, whatever interrupts it."""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from fnode import io
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading
from fnode.bench.store import Store
from fnode.bench.tasks import compute
from fnode.errors import InputError

FIGURE_KINDS = ("png", "pdf")  # to look at, and to print
DOTS_PER_INCH = 150
LOOK_SECONDS = 2.0  # between two looks at how far the cells are


@dataclasses.dataclass(frozen=True)
class Presented:
    """What became of one experiment: its tables and figures, or why it failed; none where it is pending."""

    experiment: AbstractExperiment
    cells: int
    seconds: float  # of all its cells, whenever they were computed
    tables: tuple[Heading, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    failed: tuple[str, ...] = ()
    missing: int = 0  # cells that are not computed yet


@dataclasses.dataclass(frozen=True)
class Standing:
    """How many cells are finished, of how many, and how far trainings under way are, by the names of their cells."""

    finished: int
    total: int
    under_way: dict[str, float]


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
    *,
    same_disk: bool = True,
    look: Callable[[Collection[Cell]], None] = lambda unfinished: None,
) -> Iterator[tuple[Cell, dict[str, Any] | str]]:
    """Every cell with its result, or with the reason why it failed, as they come; what is stored comes first.

    Executors compute `compute(cell, folder)`, a function known by name that takes and returns plain values, in any
    process or on any machine; this process stores. Where workers see the disk of this process, they are given the
    folder of the cell, to go on in it with what an interrupt cut short. `look` is called with what is not finished,
    again and again.
    """
    missing = []
    for cell in {cell.key: cell for cell in cells}.values():
        result = store.load(cell)
        if result is None:
            missing.append(cell)
        else:
            yield cell, result
    waiting = {
        executor.submit(compute, cell, store.path(cell) if same_disk else None): cell for cell in in_turn(missing)
    }
    while waiting:
        look(waiting.values())
        finished, _ = concurrent.futures.wait(waiting, LOOK_SECONDS, concurrent.futures.FIRST_COMPLETED)
        for future in finished:
            cell = waiting.pop(future)
            yield cell, _kept(cell, future, store)


def _kept(cell: Cell, future: concurrent.futures.Future, store: Store) -> dict[str, Any] | str:
    """The result as it is stored, or the reason why there is none."""
    try:
        store.save(cell, future.result())
    except InputError as error:
        return f"{cell.name}: {error}"
    kept = store.load(cell)
    assert kept is not None
    return kept


def in_turn(cells: Sequence[Cell]) -> list[Cell]:
    """The heaviest first; beside it the lighter half, from light to heavy, so that there soon is something to see; then
    the others from heavy to light, so that workers end together.
    """
    ordered = sorted(cells, key=lambda cell: -cell.weight)
    half = (len(ordered) + 1) // 2
    return ordered[:1] + ordered[half:][::-1] + ordered[1:half]


def needed(experiment: AbstractExperiment, *, seeds: int, quick: bool, without: Collection[str] = ()) -> list[Cell]:
    """The cells of an experiment, but for those of models that are left out."""
    if experiment.pending:
        return []
    if without and not experiment.partial:
        raise InputError(f"{experiment.name} is made of all its models: name only tables of errors and times")
    cells = [cell for cell in experiment.cells(seeds, quick) if cell.inputs.get("model") not in without]
    if without and not cells:
        raise InputError(f"{experiment.name} has no model left: name fewer with --without")
    return cells


def run_bench(
    experiments: Sequence[AbstractExperiment],
    folder: Path,
    *,
    seeds: int,
    quick: bool,
    without: Collection[str] = (),
    executor: concurrent.futures.Executor | None = None,
    same_disk: bool = True,
    report: Callable[[Standing], None] = lambda standing: None,
) -> list[Presented]:
    """Compute what is missing and write the tables and figures of each experiment as soon as its cells are there.

    `report` hears how far it is, every few seconds.
    """
    parts = {one.name: needed(one, seeds=seeds, quick=quick, without=without) for one in experiments}
    cells = [cell for several in parts.values() for cell in several]
    total, found, presented = len({cell.key for cell in cells}), {}, {}
    store = Store(folder)

    def present_complete() -> None:
        for one in experiments:
            if one.name not in presented and all(cell.key in found for cell in parts[one.name]):
                presented[one.name] = _presented(one, [(cell, found[cell.key]) for cell in parts[one.name]], folder)

    def look(unfinished: Collection[Cell]) -> None:
        shares = {cell.name: store.share(cell) for cell in unfinished}
        report(Standing(len(found), total, {name: share for name, share in shares.items() if share is not None}))

    for cell, result in run_cells(cells, store, executor or InThisProcess(), same_disk=same_disk, look=look):
        found[cell.key] = result
        present_complete()
    present_complete()
    return [presented[one.name] for one in experiments]


def finished(experiments: Sequence[AbstractExperiment], folder: Path, **options) -> Iterator[Presented]:
    """The tables of what is there already, while the rest is computed elsewhere or later; nothing is written.

    Options are those of `needed`.
    """
    store = Store(folder)
    for one in experiments:
        cells = needed(one, **options)
        found = [(cell, result) for cell in cells if (result := store.load(cell)) is not None]
        missing = len(cells) - len(found)
        tables = one.present(found) if found and (one.partial or not missing) else ()
        seconds = sum((result["seconds"] for _, result in found), 0.0)
        yield Presented(one, len(cells), seconds, tuple(tables), missing=missing)


def _presented(experiment: AbstractExperiment, results, folder: Path) -> Presented:
    """What finished cells come to; files are written."""
    failed = tuple(result for _, result in results if isinstance(result, str))
    good = [(cell, result) for cell, result in results if not isinstance(result, str)]
    one = Presented(experiment, len(results), sum((result["seconds"] for _, result in good), 0.0), failed=failed)
    if experiment.pending or failed:
        return one
    one = dataclasses.replace(one, tables=tuple(experiment.present(good)), drawings=tuple(experiment.figures(good)))
    _write(one, folder)
    return one


def _write(one: Presented, folder: Path) -> None:
    for drawing in one.drawings:
        for kind in FIGURE_KINDS:
            with io.replacing(folder / f"{drawing.name}.{kind}") as temporary:
                drawing.figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH)
            drawing.figure.set_layout_engine("none")  # the places found for the first kind serve for all
    experiment = one.experiment
    parts = [f"# {experiment.title}\n", *(heading.markdown() for heading in one.tables)]
    parts += [f"![{drawing.name}]({drawing.name}.png)\n\n{drawing.caption}\n" for drawing in one.drawings]
    io.write_text(folder / f"{experiment.name}.md", "\n".join(parts))
    if one.tables:
        io.write_text(folder / f"{experiment.name}.tex", "\n".join(heading.latex() for heading in one.tables))
