"""Trajectories written as tables: CSV, Parquet and NPZ files with one column per quantity."""

from pathlib import Path

import numpy as np
import polars

from fnode.derivatives import Labels
from fnode.errors import InputError
from fnode.io.atomic import replacing
from fnode.trajectory import Trajectory

FORMATS = (".csv", ".parquet", ".npz")


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
