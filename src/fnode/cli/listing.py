"""`fnode list`: what there is by name."""

from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._shared import AsJson, app, console, print_json


@app.command("list")
def list_names(
    kind: Annotated[
        str | None, typer.Argument(help="systems, models, recipes, derivatives, solvers or experiments")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what there is by name. Example: `fnode list systems`."""
    from fnode.bench import EXPERIMENTS
    from fnode.derivatives import DERIVATIVES
    from fnode.errors import choose
    from fnode.methods import METHODS
    from fnode.recipes import RECIPES
    from fnode.solvers import SOLVERS
    from fnode.systems import SYSTEMS

    kinds = {
        "systems": SYSTEMS,
        "models": METHODS,
        "recipes": RECIPES,
        "derivatives": DERIVATIVES,
        "solvers": SOLVERS,
        "experiments": EXPERIMENTS,
    }
    if kind is not None:
        kinds = {kind: kinds[choose("list", kind, kinds)]}
    if as_json:
        print_json({name: list(members) for name, members in kinds.items()} if kind is None else list(kinds[kind]))
        return
    for name, members in kinds.items():
        table = Table(title=name, title_justify="left", show_header=False, box=None, pad_edge=False)
        for member, value in members.items():
            table.add_row(member, getattr(value, "summary", value.__doc__ or "").partition("\n")[0])
        console.print(table, "")
