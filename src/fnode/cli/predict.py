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
    start: Annotated[Path | None, typer.Option("--from", help="Starts: trajectories, or rows without times.")] = None,
    until: Annotated[float | None, typer.Option(help="The time at which to stop.")] = None,
    dt: Annotated[float | None, typer.Option(help="Time between samples; the data's own by default.")] = None,
    settings: Settings = None,
) -> None:
    """Roll a learned model out, from one start or many.

    It begins at the first sample of each trajectory. A model that learned from noisy data begins where it meets all
    samples given best.

    `--set` changes states at the start (`x=0.5`) and gives inputs and parameters, as numbers or as files with their own
    times (`u=inputs.csv`; `hold=zero`, `linear` or `cubic` joins their samples).
    Example: `fnode predict runs/msd --set x=0.5 --until 10 -o future.csv`.
    """
    prepare_jax()
    from fnode import io
    from fnode.derivatives import estimated
    from fnode.model import Model
    from fnode.run_folder import PREDICTION, writable

    model = Model.load(run)
    needs = model.forecaster().needs
    if settings and needs != 1:
        begins = f"begins with {needs} samples: give them with --from" if needs else "is a function of time alone"
        raise InputError(f"--set {settings[0]}: {model.config.model} {begins}; it has no first state to change")
    writable(output)
    columns = model.columns
    states, given, hold = _assigned(columns, settings or [])
    data = model.config.data
    roles = io.roles_given(data.roles) if start else {}
    if not data.velocities:  # left aside in training: a start, often a single row, is taken as it is given
        roles.pop("velocities", None)
    starts = io.read(
        start or run / PREDICTION, _without(columns, given), gaps=data.gaps, timeless=True, **{**roles, "split": ""}
    )
    if until is None and max(map(len, starts.values())) < 2:
        raise InputError(f"{start}: every start is a single sample: say with --until T where to stop")
    signals = {name: _signals(name, value) for name, value in given.items()}
    futures = {}
    for name, trajectory in starts.items():
        known = len(trajectory) if start and not states else 1  # a state that was set is no estimate
        trajectory = _with_start(trajectory if known > 1 else estimated(trajectory), states)
        control = _control(columns, trajectory, name, signals, hold)
        future = model.simulate(trajectory, until=until, dt=dt, control=control, known=known)
        futures[name] = future.checked(f"the rollout of {name}")
    io.write(output, futures)
    if model.noise and start and not states and max(map(len, starts.values())) > 1:
        console.print("starts are estimated from all samples given: the model learned from noisy data", highlight=False)
    for line in _told(given, signals, hold, max(float(future.ts[-1]) for future in futures.values())):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    count = f"{sum(map(len, futures.values()))} samples"
    console.print(f"{output}: {count}" + (f" of {len(futures)} starts" if len(futures) > 1 else ""), highlight=False)


def _assigned(columns, assignments: list[str]) -> tuple[dict[str, float], dict[str, float | Path], str]:
    """What `--set` gives: states at the start, inputs and parameters as numbers or files, and the hold of files."""
    from fnode.errors import choose
    from fnode.signals import HOLDS

    states = [column.name for column in columns.state]
    external = [column.name for column in columns.external]
    start: dict[str, float] = {}
    given: dict[str, float | Path] = {}
    hold = "linear"
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if name == "hold":
            hold = choose("hold", text, HOLDS)
            continue
        if not equals or name not in (*states, *external):
            more = f", inputs and parameters: {', '.join(external)}" if external else ""
            raise InputError(f"--set {assignment}: predict takes states at the start: {', '.join(states)}{more}")
        try:
            value = float(text)
        except ValueError:
            if name in states:
                raise InputError(f"--set {assignment}: need a number for the state '{name}'") from None
            given[name] = Path(text)
            continue
        (start if name in states else given)[name] = value
    return start, given, hold


def _without(columns, names):
    """The columns that a file of starts needs: all but those given otherwise."""
    import dataclasses

    return dataclasses.replace(
        columns,
        inputs=tuple(column for column in columns.inputs if column.name not in names),
        parameters=tuple(column for column in columns.parameters if column.name not in names),
    )


def _signals(name: str, value: float | Path) -> dict:
    """An input by the trajectories it is for, each its times and values; one for all goes by the name None."""
    from fnode import io

    return io.read_signal(value, name) if isinstance(value, Path) else {None: ([0.0], [value])}


def _control(columns, trajectory, name: str, signals: dict, hold: str):
    """All inputs and parameters as one function of time."""
    import jax.numpy as jnp

    from fnode.signals import HOLDS, LinearHold, SideBySide

    if not columns.external:
        return None
    measured = [column.name for column in trajectory.columns.external]
    parts = []
    for column in columns.external:
        if column.name in measured:
            k = measured.index(column.name)
            parts.append(LinearHold(trajectory.ts, trajectory.u[:, k : k + 1]))
            continue
        found = signals[column.name]
        if None not in found and name not in found:
            raise InputError(f"no input '{column.name}' for trajectory {name}: its file has {', '.join(found)}")
        ts, us = (jnp.asarray(values) for values in (found[name] if name in found else found[None]))
        parts.append((HOLDS[hold] if len(ts) > 1 else LinearHold)(ts, us[:, None]))
    return SideBySide(tuple(parts))


def _told(given: dict, signals: dict, hold: str, end: float):
    """How inputs from files are used, and where they end before the prediction does."""
    for name, value in given.items():
        if isinstance(value, Path):
            last = min(float(ts[-1]) for ts, _ in signals[name].values())
            beyond = f"; it keeps its last value after t = {last:g}" if last < end else ""
            yield f"{name}: {value}, {hold} hold{beyond}"


def _with_start(trajectory, states: dict[str, float]):
    """A trajectory whose first sample has some of its states changed."""
    import dataclasses

    from fnode.trajectory import State

    names = [column.name for column in trajectory.columns.state]
    q, v = trajectory.x.q, trajectory.x.v
    for name, value in states.items():
        k = names.index(name)
        q, v = (q.at[0, k].set(value), v) if k < q.shape[1] else (q, v.at[0, k - q.shape[1]].set(value))
    return dataclasses.replace(trajectory, x=State(q, v))
