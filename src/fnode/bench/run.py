"""Running experiments: every cell once, whatever interrupts it."""

import concurrent.futures
from collections.abc import Callable, Sequence
from pathlib import Path

from fnode import io
from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.bench.store import Store

FIGURE_KINDS = ("png", "pdf")  # to look at, and to print


def run_bench(
    experiments: Sequence[AbstractExperiment],
    folder: Path,
    *,
    seeds: int,
    quick: bool,
    executor: concurrent.futures.Executor | None = None,
    report: Callable[[str, Cell, int, int], None] = lambda name, cell, done, total: None,
) -> dict[str, list[Heading]]:
    """Compute what is missing, then write the tables and figures of each experiment and return the tables.

    An executor computes cells elsewhere, in any order; results are stored here. `report` is told before each cell, or
    after it when an executor is at work: the experiment, the cell, how many are done and how many there are.
    """
    store = Store(folder)
    work = [(experiment, cell) for experiment in experiments for cell in experiment.cells(seeds, quick)]
    missing = [(experiment, cell) for experiment, cell in work if store.load(experiment.name, cell) is None]
    done = len(work) - len(missing)
    if executor is None:
        for experiment, cell in missing:
            report(experiment.name, cell, done, len(work))
            store.save(experiment.name, cell, experiment.compute(cell))
            done += 1
    else:
        waiting = {executor.submit(experiment.compute, cell): (experiment, cell) for experiment, cell in missing}
        for future in concurrent.futures.as_completed(waiting):
            experiment, cell = waiting[future]
            store.save(experiment.name, cell, future.result())
            done += 1
            report(experiment.name, cell, done, len(work))
    finished: dict[str, list] = {experiment.name: [] for experiment in experiments}
    for experiment, cell in work:
        finished[experiment.name].append((cell, store.load(experiment.name, cell)))
    tables = {}
    for experiment in experiments:
        tables[experiment.name] = experiment.present(finished[experiment.name])
        text = "\n".join(heading.markdown() for heading in tables[experiment.name])
        drawn = experiment.figures(finished[experiment.name])
        for name, figure in drawn.items():
            for kind in FIGURE_KINDS:
                with io.replacing(folder / f"{name}.{kind}") as temporary:
                    figure.savefig(temporary, format=kind, dpi=200)
        pictures = "".join(f"\n![{name}]({name}.png)\n" for name in drawn)
        io.write_text(folder / f"{experiment.name}.md", f"# {experiment.title}\n\n{text}{pictures}")
    return tables
