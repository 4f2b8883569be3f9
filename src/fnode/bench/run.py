"""Running experiments: every cell once, whatever interrupts it."""

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
    report: Callable[[str, Cell, int, int], None] = lambda name, cell, done, total: None,
) -> dict[str, list[Heading]]:
    """Compute what is missing, then write the tables and figures of each experiment and return the tables.

    `report` is told before each cell: the experiment, the cell, how many are done and how many there are.
    """
    store = Store(folder)
    work = [(experiment, cell) for experiment in experiments for cell in experiment.cells(seeds, quick)]
    finished: dict[str, list] = {experiment.name: [] for experiment in experiments}
    for done, (experiment, cell) in enumerate(work):
        result = store.load(experiment.name, cell)
        if result is None:
            report(experiment.name, cell, done, len(work))
            result = experiment.compute(cell)
            store.save(experiment.name, cell, result)
        finished[experiment.name].append((cell, result))
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
