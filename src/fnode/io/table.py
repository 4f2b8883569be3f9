"""Trajectories as tables: CSV, Parquet and NPZ files with one column per quantity."""

from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import polars

from fnode.derivatives import Labels
from fnode.errors import InputError
from fnode.io.atomic import replacing
from fnode.trajectory import Column, Columns, State, Trajectory

FORMATS = (".csv", ".parquet", ".npz")


def read(path: str | Path, columns: Columns | None = None, *, gaps: bool = False) -> dict[str, Trajectory]:
    """The trajectories of a file by name, checked; `columns` says what is expected, else the header does.

    A file has a column `t`, coordinates by name, their velocities as `d_NAME`, and inputs; a column `trajectory`
    tells several trajectories apart. Missing values are errors unless `gaps` are allowed: then they are nan.
    """
    path = Path(path)
    table = _read_table(path)
    if columns is None:
        columns = understood(table.columns, path)
    needed = ["t", *(column.name for column in (*columns.state, *columns.external))]
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(
            f"{path}: no column '{missing[0]}' (found {', '.join(table.columns)}); columns needed: {', '.join(needed)}"
        )
    numbers = table.with_columns(polars.col(name).cast(polars.Float64, strict=False) for name in needed)
    for name in needed:
        text = numbers[name].is_null() & table[name].is_not_null()
        if text.any():
            row = text.to_list().index(True)
            raise InputError(f"{path}: column '{name}' is not numeric: got {table[name][row]!r} in row {row + 1}")
    table = numbers.with_columns(polars.col(name).fill_null(float("nan")) for name in needed)
    names = table["trajectory"].cast(polars.String) if "trajectory" in table.columns else None
    parts = (
        {"0": table}
        if names is None
        else {name: table.filter(names == name) for name in names.unique(maintain_order=True)}
    )
    found = {}
    for name, part in parts.items():
        origin = str(path) if names is None else f"{path}, trajectory {name}"
        found[name] = _trajectory(part, columns).checked(origin, gaps=gaps)
    return found


def understood(header: Sequence[str], path: Path) -> Columns:
    """What a header says: a name with a `d_NAME` beside it is a coordinate, the rest are inputs."""
    names = [name for name in header if name not in ("t", "trajectory") and not name.startswith("dd_")]
    coordinates = [name for name in names if f"d_{name}" in names]
    if "t" not in header or not coordinates:
        raise InputError(
            f"{path}: need a column 't' and, for each coordinate NAME, columns NAME and d_NAME (its velocity); "
            f"found {', '.join(header) or 'no columns'}"
        )
    inputs = [name for name in names if name not in coordinates and name.removeprefix("d_") not in coordinates]
    return Columns(tuple(map(Column, coordinates)), tuple(map(Column, inputs)))


def write(path: str | Path, trajectories: dict[str, Trajectory]) -> None:
    """One table; a column `trajectory` when there are several, accelerations where they are known."""
    tables = [_table(name if len(trajectories) > 1 else None, part) for name, part in trajectories.items()]
    _write_table(Path(path), polars.concat(tables))


def write_labels(path: str | Path, found: dict[str, tuple[Trajectory, Labels]]) -> None:
    """The derivatives of trajectories with their standard deviations `sd_NAME`, beside the states they belong to."""
    tables = []
    for name, (trajectory, labels) in found.items():
        columns = trajectory.columns
        rates = tuple(column.rate for column in columns.coordinates) if columns.first_order else columns.accelerations
        table = _table(name if len(found) > 1 else None, trajectory)
        for i, column in enumerate(rates):
            sd = labels.rate.sd
            deviation = np.full(len(trajectory), np.nan) if sd is None else sd[:, i]
            table = table.with_columns(
                polars.Series(column.name, labels.rate.value[:, i]), polars.Series(f"sd_{column.name}", deviation)
            )
        tables.append(table)
    _write_table(Path(path), polars.concat(tables))


def _write_table(path: Path, table: polars.DataFrame) -> None:
    if path.suffix not in FORMATS:
        raise InputError(f"cannot write '{path}': the name must end in {', '.join(FORMATS)}")
    with replacing(path) as temporary:
        if path.suffix == ".csv":
            table.write_csv(temporary)
        elif path.suffix == ".parquet":
            table.write_parquet(temporary)
        else:
            np.savez(temporary, allow_pickle=False, **{name: np.array(table[name].to_list()) for name in table.columns})


def _read_table(path: Path) -> polars.DataFrame:
    if not path.is_file():
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: need a trajectory file")
    try:
        if path.suffix == ".csv":
            return polars.read_csv(path, infer_schema_length=None)
        if path.suffix == ".parquet":
            return polars.read_parquet(path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return polars.DataFrame({name: arrays[name] for name in arrays.files})
    except (polars.exceptions.PolarsError, ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as {path.suffix[1:]}: {str(error).splitlines()[0]}") from None
    raise InputError(f"{path} is not a known kind of file: the name must end in {', '.join(FORMATS)}")


def _trajectory(table: polars.DataFrame, columns: Columns) -> Trajectory:
    def values(wanted: Sequence[Column]):
        if not wanted:
            return np.empty((len(table), 0))
        return table.select(column.name for column in wanted).to_numpy()

    return Trajectory(
        jnp.asarray(table["t"].to_numpy()),
        State(jnp.asarray(values(columns.coordinates)), jnp.asarray(values(columns.velocities))),
        jnp.asarray(values(columns.external)) if columns.external else None,
        columns=columns,
    )


def _table(name: str | None, trajectory: Trajectory) -> polars.DataFrame:
    columns = trajectory.columns
    parts = [
        (trajectory.states, columns.state),
        (trajectory.a, columns.accelerations),
        (trajectory.u, columns.external),
    ]
    values = {"t": np.asarray(trajectory.ts)}
    for array, names in parts:
        if array is not None:
            values |= {column.name: np.asarray(array[:, i]) for i, column in enumerate(names)}
    table = polars.DataFrame(values)
    return table if name is None else table.select(polars.lit(name).alias("trajectory"), *table.columns)
