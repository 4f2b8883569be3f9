"""`fnode predict`: roll a learned model out."""

from pathlib import Path
from typing import Annotated

import typer

from fnode.cli._shared import Settings, app, console, prepare_jax
from fnode.errors import InputError


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .parquet or .npz file.")],
    start: Annotated[Path | None, typer.Option("--from", help="A file whose first samples are the starts.")] = None,
    until: Annotated[float | None, typer.Option(help="The time at which to stop.")] = None,
    dt: Annotated[float | None, typer.Option(help="Time between samples; the data's own by default.")] = None,
    settings: Settings = None,
) -> None:
    """Roll a learned model out. Example: `fnode predict runs/msd --set x=0.5 --until 10 -o future.csv`."""
    prepare_jax()
    from fnode import io
    from fnode.model import Model
    from fnode.run_folder import PREDICTION, writable

    model = Model.load(run)
    needs = model.forecaster().needs
    if settings and needs != 1:
        begins = f"begins with {needs} samples: give them with --from" if needs else "is a function of time alone"
        raise InputError(f"--set {settings[0]}: {model.config.model} {begins}; it has no first state to change")
    writable(output)
    source = start or run / PREDICTION
    futures = {}
    for name, trajectory in io.read(source, model.columns).items():
        trajectory = _with_start(trajectory, settings or [])
        futures[name] = model.simulate(trajectory, until=until, dt=dt).checked(f"the rollout of {name}")
    io.write(output, futures)
    console.print(f"{output}: {sum(map(len, futures.values()))} samples", highlight=False)


def _with_start(trajectory, assignments: list[str]):
    """A trajectory whose first sample has some of its states changed."""
    import dataclasses

    from fnode.config import settings
    from fnode.trajectory import State

    names = [column.name for column in trajectory.columns.state]
    given = settings(assignments, [], names)
    if set(given) - {"start"}:
        raise InputError(f"--set of predict takes states at the start: {', '.join(names)}")
    q, v = trajectory.x.q, trajectory.x.v
    for name, value in given.get("start", {}).items():
        k = names.index(name)
        q, v = (q.at[0, k].set(value), v) if k < q.shape[1] else (q, v.at[0, k - q.shape[1]].set(value))
    return dataclasses.replace(trajectory, x=State(q, v))
