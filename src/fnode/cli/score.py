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
    """Score a learned model on a file. Example: `fnode score runs/msd swing.csv`.

    Of a constrained mechanism the learned coordinates of the file count, and `mse_all` all that follow from them.
    """
    prepare_jax()
    from fnode import io
    from fnode.derivatives import estimated
    from fnode.mechanisms import reduced
    from fnode.metrics import mse, rmse
    from fnode.model import Model

    model = Model.load(run)
    results = {}
    data, columns = model.config.data, model.columns
    roles = {**io.roles_given(data.roles), "split": ""}
    for name, measured in io.read(file, columns, gaps=data.gaps, **roles).items():
        trajectory = estimated(measured)
        truth, motion = model.complete(trajectory), model.simulate(trajectory)
        learned = motion if model.whole is None else reduced(motion, columns.coordinates)
        errors = rmse(motion.x, truth.x)
        results[name] = {
            "mse": float(mse(learned.x, trajectory.x)),
            "mse_all": None if model.whole is None else float(mse(motion.x, truth.x)),
            "rmse": {column.name: float(errors[i]) for i, column in enumerate(motion.columns.state)},
        }
    if as_json:
        print_json(results)
        return
    names = [column.name for column in columns.state]
    headings = ("MSE",) if model.whole is None else ("MSE", "MSE all")
    table = Table("trajectory", *headings, *(f"RMSE {name}" for name in names))
    for name, figures in results.items():
        shown = [figures["mse"], figures["mse_all"], *(figures["rmse"][name] for name in names)]
        table.add_row(name, *(f"{value:.3g}" for value in shown if value is not None))
    console.print(table)
