"""From files, frames and arrays to trajectories whose columns are understood and whose numbers are checked."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars

from fnode.errors import InputError
from fnode.io.cleaning import SHORTEST, Gaps, Record, check_numbers, check_times, cleaned
from fnode.io.readers import named, read_table, table_of
from fnode.io.roles import Roles, Understood, understood, understood_as
from fnode.trajectory import Column, Columns, State, Trajectory

TRAINING = ("train", "training", "identification", "estimation", "fit")
HELD_OUT = ("test", "testing", "validation", "valid", "val", "held_out", "heldout", "holdout", "eval", "evaluation")


class Trajectories(dict[str, Trajectory]):
    """Trajectories by name (or by number), with what was understood of their file and done to it.

    `training` tells how many first samples of each are for training, where the file has a split; velocities that the
    file does not have are nan.
    """

    def __init__(
        self,
        found: Mapping[str, Trajectory],
        *,
        roles: Understood | None = None,
        training: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
    ):
        super().__init__(found)
        self.roles, self.training, self.notes = roles, training, tuple(notes)

    def without_velocities(self, note: str) -> "Trajectories":
        """The same trajectories as if only their positions had been measured."""
        found = {
            name: dataclasses.replace(each, x=State(each.x.q, jnp.full_like(each.x.v, jnp.nan)))
            for name, each in self.items()
        }
        roles = None if self.roles is None else dataclasses.replace(self.roles, measured=False)
        return Trajectories(found, roles=roles, training=self.training, notes=(*self.notes, note))

    def __missing__(self, number):
        if isinstance(number, int):
            return list(self.values())[number]
        raise KeyError(number)


def read(
    source,
    columns: Columns | None = None,
    *,
    gaps: Gaps | None = None,
    timeless: bool = False,
    known: Sequence[Column] = (),
    **roles: Any,
) -> Trajectories:
    """The trajectories of a file, a frame, a dict of arrays or arrays `(ts, q[, v[, u]])`; or of a list of such.

    `columns` says what is expected, else the header and the `roles` do: `time`, `trajectory`, `split`, `coordinates`,
    `velocities`, `inputs`, `parameters`, `angles`, `units`. Missing values and gaps are errors unless `gaps` says what
    to do with them. With `timeless`, a table without times, or with one time only, has a start in every row. `known`
    are coordinates, such as those of a mechanism, that are recognised where a header has them.
    """
    wanted = Roles.of(roles)
    if isinstance(source, Trajectories) and gaps is None:  # its roles were settled when it was read
        return source
    if isinstance(source, Trajectory):
        source = [source]
    if isinstance(source, Mapping) and source and all(isinstance(part, Trajectory) for part in source.values()):
        return _joined([(str(name), _taken(part, str(name), gaps)) for name, part in source.items()])
    if isinstance(source, (list, tuple)) and not _are_arrays(source):
        return _all(source, columns, gaps, timeless, known, wanted)
    origin, table = _table(source)
    return _read(origin, table, columns, gaps, timeless, known, wanted)


def _all(
    sources: Sequence,
    columns: Columns | None,
    gaps: Gaps | None,
    timeless: bool,
    known: Sequence[Column],
    roles: Roles,
) -> Trajectories:
    """Several sources as one; every one must have the columns of the first."""
    if not sources:
        raise InputError("got no trajectories: give at least one file, frame, array or trajectory")
    parts = []
    for number, source in enumerate(sources):
        name = Path(source).stem if isinstance(source, (str, Path)) else str(number)
        if isinstance(source, Trajectory):
            found = _taken(source, name, gaps)
            if columns is not None and source.columns != columns:
                raise InputError(f"trajectory {number} has other columns than the first: give all of them the same")
        else:
            origin, table = _table(source)
            positions = bool(parts) and not parts[0][1].measured
            found = _read(origin, table, columns, gaps, timeless, known, roles, positions=positions)
        columns = next(iter(found.values())).columns
        parts.append((name, found))
    names = [name for name, _ in parts]
    parts = [(name if names.count(name) == 1 else f"{name}-{k}", found) for k, (name, found) in enumerate(parts)]
    return parts[0][1] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[tuple[str, "Trajectories"]]) -> Trajectories:
    found, training, notes = {}, {}, []
    for name, part in parts:
        for inner, trajectory in part.items():
            full = inner if part.roles is None else f"{name}/{inner}"  # a trajectory goes by its own name
            found[full] = trajectory
            if part.training is not None:
                training[full] = part.training[inner]
        notes += [f"{name}: {note}" for note in part.notes]
    if training and len(training) < len(found):
        raise InputError("some files have a column that splits training from test, others have not: give it to all")
    return Trajectories(found, roles=parts[0][1].roles, training=training or None, notes=notes)


def _table(source) -> tuple[str, polars.DataFrame]:
    """A table and a name for it in errors."""
    if isinstance(source, (str, Path)):
        return str(source), read_table(source)
    if isinstance(source, polars.DataFrame):
        return "frame", named(source, "frame")
    if isinstance(source, (list, tuple)) and _are_arrays(source):
        arrays = dict(zip(("t", "q", "v", "u"), source, strict=False))
        if len(source) < 2 or len(source) > 4:
            raise InputError(f"got {len(source)} arrays: need (ts, q), (ts, q, v) or (ts, q, v, u)")
        return "arrays", table_of({name: array for name, array in arrays.items() if array is not None}, "arrays")
    if isinstance(source, Mapping):
        return "arrays", table_of(source, "arrays")
    if (
        not isinstance(source, (list, tuple)) and hasattr(source, "columns") and hasattr(source, "iloc")
    ):  # a pandas frame; pandas itself is not needed
        names = [str(name) for name in source.columns]
        return "frame", table_of({name: source.iloc[:, k].to_numpy() for k, name in enumerate(names)}, "frame")
    raise InputError(
        f"got {type(source).__name__}: need a path, a Trajectory, a pandas or polars frame, a dict of arrays, "
        "arrays (ts, q[, v[, u]]), or a list of such"
    )


def _are_arrays(source) -> bool:
    """Whether a list is one trajectory as arrays, not several trajectories."""
    first = source[0] if len(source) else None
    if isinstance(first, (list, tuple)):
        return bool(first) and all(isinstance(value, (int, float)) for value in first)
    return first is not None and not isinstance(first, Trajectory) and hasattr(first, "ndim") and first.ndim == 1


def _read(
    origin: str,
    table: polars.DataFrame,
    columns: Columns | None,
    gaps: Gaps | None,
    timeless: bool,
    known: Sequence[Column],
    roles: Roles,
    *,
    positions: bool = False,
) -> "_Read":
    if positions:
        roles = dataclasses.replace(roles, velocities=())
    texts = [name for name in table.columns if is_text(table[name])]
    if columns is None:
        meant = understood(table.columns, roles, origin, texts=texts, timeless=timeless, known=known)
    else:
        meant = understood_as(columns, table.columns, roles, origin, timeless=timeless)
    found, training, notes = {}, {}, []
    for record in records(table, meant, origin, timeless=timeless):
        where = origin if meant.trajectory is None and meant.time else f"{origin}, trajectory {record.name}"
        pieces, told = cleaned(record, meant.columns, where, gaps)
        notes += [f"{record.name}: {note}" for note in told]
        for piece in _by_split(pieces):
            if piece.v is None and len(piece) < SHORTEST and gaps != "keep":
                raise InputError(
                    f"{where}: got {len(piece)} samples of positions only, but their velocities can be estimated from "
                    f"{SHORTEST} or more: give more samples, or the velocities as columns d_NAME"
                )
            found[piece.name] = trajectory_of(piece, meant.columns)
            if piece.train is not None:
                training[piece.name] = int(piece.train.sum())
    if not found:
        raise InputError(f"{origin}: got no samples, need at least one")
    return _Read(found, roles=meant, training=training or None, notes=notes)


class _Read(Trajectories):
    """The trajectories of one table."""

    @property
    def measured(self) -> bool:
        return self.roles is None or self.roles.measured


def records(table: polars.DataFrame, meant: Understood, origin: str, *, timeless: bool = False) -> Iterable[Record]:
    """The rows of each trajectory as numbers; rows are counted from 1, below the header."""
    columns = meant.columns
    names = [*(meant.sources[c.name] for c in (*columns.coordinates, *columns.external))]
    speeds = [meant.sources[c.name] for c in columns.velocities] if meant.measured else []
    values = {
        name: numbers(table[name], name, origin) for name in [*names, *speeds, *([meant.time] if meant.time else [])]
    }
    count = len(table)

    def block(wanted: Sequence[str]) -> np.ndarray:
        return np.stack([values[name] for name in wanted], axis=1) if wanted else np.empty((count, 0))

    external = [meant.sources[c.name] for c in columns.external]
    whole = Record(
        "0",
        np.arange(1, count + 1),
        values[meant.time] if meant.time else np.zeros(count),
        block(names[: len(columns.coordinates)]),
        block(speeds) if meant.measured else None,
        block(external) if external else None,
        _marks(table[meant.split], meant.split, origin) if meant.split else None,
    )
    if meant.trajectory is not None:
        places: dict[str, list[int]] = {}
        for k, name in enumerate(_labels(table[meant.trajectory], meant.trajectory, origin)):
            places.setdefault(name, []).append(k)
        for name, rows in places.items():
            yield dataclasses.replace(whole[np.array(rows)], name=name)
    elif timeless and count > 1 and np.all(whole.ts == whole.ts[0]):
        for k in range(count):
            yield dataclasses.replace(whole[k : k + 1], name=str(k))
    else:
        yield whole


def read_signal(path: str | Path, name: str) -> dict[str | None, tuple[np.ndarray, np.ndarray]]:
    """An input on its own times, by trajectory; one that is for all of them goes by the name None."""
    table = read_table(path)
    header = understood_as(Columns(()), table.columns, Roles(), str(path))
    bare = {re.sub(r"\s*[\[(].*", "", column): column for column in header.ignored}
    column = bare.get(name) or (header.ignored[0] if len(header.ignored) == 1 else None)
    if column is None:
        raise InputError(f"{path}: no column '{name}' (found {', '.join(table.columns)}): need t and {name}")
    meant = dataclasses.replace(header, columns=Columns((), (Column(name),)), sources={name: column})
    found: dict[str | None, tuple[np.ndarray, np.ndarray]] = {}
    for record in records(table, meant, str(path)):
        check_times(record, str(path))
        check_numbers(record, meant.columns, str(path), missing=False)
        assert record.u is not None
        found[record.name if meant.trajectory else None] = (record.ts, record.u[:, 0])
    if not found:
        raise InputError(f"{path}: got no samples, need at least one")
    return found


def numbers(series: polars.Series, name: str, origin: str) -> np.ndarray:
    """A column as numbers; what is missing is nan, and a text is an error that names its row."""
    if series.dtype.is_temporal() or series.dtype.is_nested() or series.dtype in (polars.Binary, polars.Object):
        raise InputError(f"{origin}: column '{name}' holds {series.dtype}: need plain numbers (times in seconds)")
    tidy = series.str.strip_chars() if series.dtype == polars.String else series
    tidy = tidy.set(tidy == "", None) if series.dtype == polars.String else tidy
    cast = tidy.cast(polars.Float64, strict=False)
    text = cast.is_null() & tidy.is_not_null()
    if text.any():
        row = int(text.arg_max() or 0)
        raise InputError(f"{origin}: column '{name}' is not numeric: got {series[row]!r} in row {row + 1}")
    return cast.fill_null(float("nan")).to_numpy().copy()


def is_text(series: polars.Series) -> bool:
    """Whether a column holds texts: fewer than half of its values are numbers."""
    if series.dtype in (polars.Categorical, polars.Enum) or series.dtype.is_temporal() or series.dtype.is_nested():
        return True
    if series.dtype != polars.String:
        return series.dtype in (polars.Binary, polars.Object)
    present = series.drop_nulls()
    return len(present) > 0 and 2 * int(
        present.str.strip_chars().cast(polars.Float64, strict=False).is_not_null().sum()
    ) < len(present)


def trajectory_of(record: Record, columns: Columns) -> Trajectory:
    """A record as a trajectory in double precision, whatever the precision of the caller."""
    v = np.full((len(record), len(columns.velocities)), np.nan) if record.v is None else record.v
    with jax.enable_x64(True):
        u = None if record.u is None else jnp.asarray(record.u)
        return Trajectory(jnp.asarray(record.ts), State(jnp.asarray(record.q), jnp.asarray(v)), u, columns=columns)


def _taken(given: Trajectory, name: str, gaps: Gaps | None) -> _Read:
    """A trajectory that is one already, checked and cleaned as one from a file."""
    ts, q, v = (np.asarray(part, float) for part in (given.ts, given.x.q, given.x.v))
    positions_only = v.size > 0 and bool(np.isnan(v).all())
    u = None if given.u is None else np.asarray(given.u, float)
    whole = Record(name, np.arange(1, len(ts) + 1), ts, q, None if positions_only else v, u, None)
    pieces, notes = cleaned(whole, given.columns, "trajectory" if name == "0" else f"trajectory {name}", gaps)
    return _Read({piece.name: trajectory_of(piece, given.columns) for piece in pieces}, notes=notes)


def _labels(series: polars.Series, name: str, origin: str) -> list[str]:
    """The trajectory of each row by name; whole numbers look the same whatever type a file keeps them in."""
    if series.dtype.is_float() and bool((series == series.round()).all()):
        series = series.cast(polars.Int64, strict=False)
    labels = series.cast(polars.String, strict=False).to_list()
    if None in labels:
        raise InputError(f"{origin}: row {labels.index(None) + 1} has no name in column '{name}' of the trajectory")
    return labels


def _marks(series: polars.Series, name: str, origin: str) -> np.ndarray:
    """Which rows the column of the split gives to training."""
    meaning = {}
    for word in series.unique(maintain_order=True).to_list():
        folded = str(word).strip().lower()
        if folded not in (*TRAINING, *HELD_OUT):
            row = series.to_list().index(word) + 1
            raise InputError(
                f"{origin}: column '{name}' of the split holds '{word}' in row {row}: "
                "need train, validation or test; --set split=0.75 splits every trajectory by time instead"
            )
        meaning[word] = folded in TRAINING
    return np.array([meaning[word] for word in series.to_list()], bool)


def _by_split(pieces: Iterable[Record]) -> Iterable[Record]:
    """Pieces that begin with their training part; where the split goes to and fro, one for each stretch."""
    for piece in pieces:
        turns = [] if piece.train is None else np.flatnonzero(np.diff(piece.train.astype(int))) + 1
        if piece.train is None or len(turns) == 0 or (len(turns) == 1 and piece.train[0]):
            yield piece
            continue
        for k, rows in enumerate(np.split(np.arange(len(piece)), turns)):
            yield dataclasses.replace(piece[rows], name=f"{piece.name}@{k + 1}")
