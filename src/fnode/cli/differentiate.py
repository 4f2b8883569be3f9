"""`fnode differentiate`: the derivatives of a file, with their errors."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._shared import AsJson, Settings, app, console, prepare_jax, print_json, roles


@app.command()
def differentiate(
    file: Annotated[Path, typer.Argument(help="A trajectory file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .parquet or .npz file.")],
    method: Annotated[str, typer.Option(help="How: see `fnode list derivatives`.")] = "auto",
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the derivatives of a file, with their errors, and draw them.

    Beside the output file a page of the same name shows signal, derivative, residuals and spectrum.
    Example: `fnode differentiate swing.csv -o labels.csv`.
    """
    prepare_jax()
    import dataclasses

    from fnode import io
    from fnode.derivatives import derivative_named, label_of
    from fnode.report import differentiation
    from fnode.report.differentiation import HEADINGS, row
    from fnode.run_folder import writable

    derivative_named(method)
    writable(output)
    trajectories = io.read(file, gaps="keep", **roles(settings))
    found = {name: (trajectory, label_of(trajectory, method)) for name, trajectory in trajectories.items()}
    io.write_labels(output, found)
    io.write_text(output.with_suffix(".html"), differentiation(file.name, method, found))
    diagnoses = {
        (name, column.name): labels.diagnostics[i]
        for name, (trajectory, labels) in found.items()
        for i, column in enumerate(trajectory.columns.coordinates)
    }
    if as_json:
        print_json([{"trajectory": n, "coordinate": c} | dataclasses.asdict(d) for (n, c), d in diagnoses.items()])
        return
    table = Table(*HEADINGS[1 if len(found) == 1 else 0 :], box=None, pad_edge=False)
    for (name, coordinate), diagnosis in diagnoses.items():
        table.add_row(*row(name, coordinate, diagnosis)[1 if len(found) == 1 else 0 :])
    console.print(table)
    console.print(f"{output}, {output.with_suffix('.html')}", highlight=False)
