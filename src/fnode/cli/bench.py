"""`fnode bench`: experiments, their tables and figures, and one page with all of them."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._shared import app, console, prepare_jax, progress_bar
from fnode.errors import InputError

QUICK_SEEDS, SEEDS = 1, 3


@app.command()
def bench(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of results; finished cells are kept.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All of them by default.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repeats of everything random; 3, or 1 with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small budgets: a smoke test.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Leave a model out of tables that can do without it; repeatable."),
    ] = None,
    only_finished: Annotated[
        bool, typer.Option("--finished", help="Print the tables of what is finished; compute and write nothing.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes side by side; one per core by default.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A dask scheduler such as tcp://host:8786, or `local` to start one here."),
    ] = None,
) -> None:
    """Run experiments and print their tables. Example: `fnode bench error_table training_time -o tables`."""
    began = time.perf_counter()
    prepare_jax()
    from fnode import io
    from fnode.bench import EXPERIMENTS, cluster_workers, cores, local_workers, needed, page
    from fnode.errors import choose
    from fnode.methods import METHODS
    from fnode.run_folder import REPORT

    chosen = [EXPERIMENTS[choose("experiment", name, EXPERIMENTS)] for name in names or EXPERIMENTS]
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: choose a folder for the results")
    seeds = seeds or (QUICK_SEEDS if quick else SEEDS)
    options = {"seeds": seeds, "quick": quick, "without": [choose("model", name, METHODS) for name in without or ()]}
    for one in chosen:
        needed(one, **options)  # an error before anything is computed or written
    if only_finished:
        _show_finished(chosen, output, **options)
        return
    output.mkdir(parents=True, exist_ok=True)
    if scheduler:
        elsewhere = cluster_workers(scheduler, prepare_jax)
    else:
        elsewhere = local_workers(workers or len(cores()), prepare_jax)
    with elsewhere as executor:
        presented = _run(chosen, output, **options, executor=executor, same_disk=not scheduler)
    seconds = time.perf_counter() - began
    io.write_text(output / REPORT, page(presented, output, seeds=seeds, quick=quick, seconds=seconds))
    for one in presented:
        _print(one)
        if one.experiment.pending:
            console.print(f"{one.experiment.name}: {one.experiment.pending}\n", highlight=False)
    console.print(f"report: {output / REPORT}, {seconds:.1f} s", highlight=False)
    failed = [reason for one in presented for reason in one.failed]
    if failed:
        raise InputError(f"{len(failed)} cells failed and are not in the tables; the first: {failed[0]}")


def _show_finished(chosen: list, output: Path, **options) -> None:
    from fnode.bench import finished

    if not output.exists():
        raise InputError(f"{output} is not there: name the folder of a bench that was begun, or leave out --finished")
    for one in finished(chosen, output, **options):
        _print(one)
        console.print(f"{one.experiment.name}: {one.cells - one.missing} of {one.cells} cells are finished\n")


def _run(chosen: list, output: Path, **options) -> list:
    """What became of the experiments, with a bar that tells how far they are."""
    from fnode.bench import run_bench

    with progress_bar("{task.fields[told]}") as bar:
        task = bar.add_task("bench", total=None, told="")

        def told(standing):
            parts = [f"{standing.finished} of {standing.total} cells"]
            parts += [f"{name[:45]} {100 * share:.0f} %" for name, share in standing.under_way.items()]
            done = standing.finished + sum(standing.under_way.values())
            bar.update(task, completed=done, total=standing.total, told="; ".join(parts))

        return run_bench(chosen, output, report=told, **options)


def _print(one) -> None:
    for heading in one.tables:
        table = Table(title=heading.title, caption=heading.text, title_justify="left")
        for column in heading.columns:
            table.add_column(column, overflow="fold")  # on a narrow screen figures are broken, never cut
        for line in heading.rows:
            table.add_row(*line)
        console.print(table, "")
