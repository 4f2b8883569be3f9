"""`fnode score`: a learned model against a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._shared import AsJson, app, console, prepare_jax, print_json


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    file: Annotated[Path, typer.Argument(help="A trajectory file to compare with.")],
    as_json: AsJson = False,
) -> None:
    """Score a learned model on a file. Example: `fnode score runs/msd swing.csv`."""
    prepare_jax()
    from fnode import io
    from fnode.derivatives import estimated
    from fnode.metrics import mse, rmse
    from fnode.model import Model

    model = Model.load(run)
    results = {}
    data = model.config.data
    roles = {**io.roles_given(data.roles), "split": ""}
    for name, measured in io.read(file, model.columns, gaps=data.gaps, **roles).items():
        trajectory = estimated(measured)
        predicted = model.simulate(trajectory).x
        errors = rmse(predicted, trajectory.x)
        results[name] = {
            "mse": float(mse(predicted, trajectory.x)),
            "rmse": {column.name: float(errors[i]) for i, column in enumerate(model.columns.state)},
        }
    if as_json:
        print_json(results)
        return
    table = Table("trajectory", "MSE", *(f"RMSE {column.name}" for column in model.columns.state))
    for name, figures in results.items():
        table.add_row(name, f"{figures['mse']:.3g}", *(f"{value:.3g}" for value in figures["rmse"].values()))
    console.print(table)
