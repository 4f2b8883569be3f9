"""`fnode bench`: experiments and their tables."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._shared import app, console, prepare_jax, progress_bar
from fnode.errors import InputError


@app.command()
def bench(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of results; finished cells are kept.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All of them by default.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repeats of everything random.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Small budgets: a smoke test.")] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A dask scheduler such as tcp://host:8786, or `local` to start one here."),
    ] = None,
) -> None:
    """Run experiments and print their tables. Example: `fnode bench label_study -o study`."""
    prepare_jax()
    from fnode.bench import EXPERIMENTS, cluster_workers, run_bench
    from fnode.errors import choose

    chosen = [EXPERIMENTS[choose("experiment", name, EXPERIMENTS)] for name in names or EXPERIMENTS]
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: choose a folder for the results")
    output.mkdir(parents=True, exist_ok=True)
    bar = progress_bar("{task.fields[cell]}")
    elsewhere = cluster_workers(scheduler, prepare_jax) if scheduler else contextlib.nullcontext()
    with bar, elsewhere as executor:
        task = bar.add_task("bench", total=None, cell="")

        def told(name, cell, done, total):
            bar.update(task, completed=done, total=total, cell=f"{name}: {cell.name}")

        tables = run_bench(chosen, output, seeds=seeds, quick=quick, executor=executor, report=told)
    for headings in tables.values():
        for heading in headings:
            table = Table(*heading.columns, title=heading.title, caption=heading.text, title_justify="left")
            for line in heading.rows:
                table.add_row(*line)
            console.print(table, "")
    console.print(", ".join(str(output / f"{name}.md") for name in tables), highlight=False)
