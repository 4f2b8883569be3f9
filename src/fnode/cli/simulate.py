"""`fnode simulate`: the motion of a system or mechanism as a file."""

from pathlib import Path
from typing import Annotated

import typer

from fnode.cli._shared import Settings, app, console, prepare_jax, system_settings
from fnode.errors import InputError


@app.command()
def simulate(
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM|MECHANISM.toml", help="A built-in system or a mechanism file.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .parquet or .npz file.")],
    steps: Annotated[int | None, typer.Option(help="Samples, t = 0 ... (N-1) dt.")] = None,
    dt: Annotated[float | None, typer.Option(help="Time between samples in seconds.")] = None,
    noise: Annotated[float, typer.Option(help="Gaussian noise, in standard deviations of each column.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    settings: Settings = None,
) -> None:
    """Write the motion of a system. Example: `fnode simulate double_pendulum -o swing.csv --steps 1000`."""
    prepare_jax()
    if system.endswith(".toml"):
        _simulate_mechanism(Path(system), output, steps or 1001, 0.01 if dt is None else dt, noise, seed, settings)
        return
    import jax

    from fnode import io
    from fnode.config import merged, validated
    from fnode.run_folder import writable
    from fnode.systems import configured, noisy, recordings, system_named

    given = system_settings(system, settings)
    data = {name: value for name, value in {"steps": steps, "dt": dt, "noise": noise}.items() if value is not None}
    config = validated(merged({"system": system, "data": data, "seed": seed}, given), "options")
    writable(output)
    made = recordings(
        configured(system_named(system), config.parameters),
        start=config.start,
        steps=config.data.steps,
        dt=config.data.dt,
        data_solver=config.data.data_solver,
        full=True,
        key=jax.random.key(config.seed),
    )
    key = jax.random.key(config.seed)
    parts = {r.name: noisy(r.truth, config.data.noise, jax.random.fold_in(key, k)) for k, r in enumerate(made)}
    io.write(output, parts)
    console.print(f"{output}: {sum(map(len, parts.values()))} samples of {system}", highlight=False)


def _simulate_mechanism(path: Path, output: Path, steps: int, dt: float, noise: float, seed: int, settings) -> None:
    """The motion of a mechanism described by a file, in all its coordinates."""
    import jax
    import jax.numpy as jnp

    from fnode import io
    from fnode.mechanisms import read_mechanism, simulate
    from fnode.run_folder import writable
    from fnode.systems import noisy

    if settings:
        raise InputError(f"--set {settings[0]}: a mechanism's numbers are in its file; change {path}")
    if steps < 1 or not dt > 0:
        raise InputError(f"got --steps {steps} and --dt {dt:g}: need at least one step and dt > 0")
    writable(output)
    mechanism = read_mechanism(path)
    if mechanism.columns.inputs:
        names = ", ".join(column.name for column in mechanism.columns.inputs)
        raise InputError(
            f"{path} has inputs ({names}), which only Python can give: fnode.mechanisms.simulate(control=)"
        )
    motion = noisy(simulate(mechanism, dt * jnp.arange(steps)), noise, jax.random.key(seed))
    io.write(output, {"0": motion})
    console.print(f"{output}: {len(motion)} samples of {path.name}", highlight=False)
