"""What is done about flaws of a record: refused, or mended as the user chose, and always told."""

import dataclasses
import itertools
from typing import Literal

import numpy as np
import scipy.ndimage

from fnode.errors import InputError
from fnode.trajectory import Columns

Gaps = Literal["split", "bridge", "keep"]
GAP = 10.0  # a step is a gap when it is longer than this many of the steps around it (the median of eleven)
BRIDGE = 20.0  # median time steps that the smoother bridges, as in `fnode.derivatives.label`
SHORTEST = 8  # samples that the smoother needs


@dataclasses.dataclass(frozen=True)
class Record:
    """The samples of one trajectory as a table has them: nan is missing, `rows` tells where the samples stand."""

    name: str
    rows: np.ndarray
    ts: np.ndarray
    q: np.ndarray
    v: np.ndarray | None
    u: np.ndarray | None
    train: np.ndarray | None  # whether a sample belongs to the training part, where the table says so

    def __len__(self) -> int:
        return len(self.ts)

    def __getitem__(self, part) -> "Record":
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[1:]}
        return dataclasses.replace(self, **{name: None if v is None else v[part] for name, v in values.items()})

    @property
    def missing(self) -> np.ndarray:
        """Which samples lack a coordinate or a measured velocity."""
        states = self.q if self.v is None else np.concatenate([self.q, self.v], axis=1)
        return np.any(np.isnan(states), axis=1, keepdims=True)[:, 0]


def cleaned(record: Record, columns: Columns, origin: str, gaps: Gaps | None = None) -> tuple[list[Record], list[str]]:
    """The record, mended as chosen, in one or several pieces; and one line for everything that was done to it.

    Times must increase and every number must be finite. Without a choice of `gaps` missing values and gaps in time are
    errors; "split" cuts the record there; "bridge" leaves missing samples to the smoother, where they are few, and cuts
    at longer gaps; "keep" changes nothing.
    """
    check_times(record, origin)
    check_numbers(record, columns, origin, missing=gaps is not None)
    record, notes = without_jumps(record, columns)
    if gaps == "keep":
        return [record], notes
    steps, pauses = gaps_of(record.ts)
    if gaps is None and len(pauses):
        k = pauses[0]
        raise InputError(
            f"{origin}: a gap of {np.diff(record.ts)[k]:g} after row {record.rows[k]} (t = {record.ts[k]:g}), "
            f"where steps are {steps[k]:g}: choose --set gaps=split (the trajectory ends there) or --set gaps=bridge "
            "(the smoother fills it)"
        )
    if gaps is None or not (len(pauses) or record.missing.any()):
        return [record], notes
    pieces, told = _split(record, pauses) if gaps == "split" else _bridged(record, steps, pauses)
    kept = [piece for piece in pieces if len(piece) >= SHORTEST]
    if not kept:
        raise InputError(
            f"{origin}: no stretch of at least {SHORTEST} samples is left after gaps={gaps}: give more complete samples"
        )
    if len(kept) < len(pieces):
        short = sum(len(piece) for piece in pieces if len(piece) < SHORTEST)
        told.append(f"{short} samples in stretches shorter than {SHORTEST} left out")
    if len(kept) > 1:
        kept = [dataclasses.replace(piece, name=f"{record.name}#{k + 1}") for k, piece in enumerate(kept)]
        told.append(f"cut into {len(kept)} trajectories")
    return kept, [*notes, *told]


def check_times(record: Record, origin: str) -> None:
    """An error that names the row unless times increase."""
    if len(record) == 0:
        raise InputError(f"{origin}: got no samples, need at least one")
    ts, rows = record.ts, record.rows
    if not np.all(np.isfinite(ts)):
        k = int(np.argmin(np.isfinite(ts)))
        raise InputError(f"{origin}: the time in row {rows[k]} is {ts[k]}: every time must be finite; repair the row")
    later = np.diff(ts)
    if np.any(later <= 0):
        k = int(np.argmax(later <= 0)) + 1
        what = "repeats the time of" if later[k - 1] == 0 else "goes back behind"
        raise InputError(
            f"{origin}: times must increase, but row {rows[k]} (sample {k}, t = {ts[k]:g}) {what} row {rows[k - 1]} "
            f"(t = {ts[k - 1]:g}): sort the rows or remove duplicates; several runs need a column 'trajectory'"
        )


def check_numbers(record: Record, columns: Columns, origin: str, *, missing: bool) -> None:
    """An error that names the row and the column of a number that is not finite, or not there."""
    parts = [(record.q, columns.coordinates, missing), (record.v, columns.velocities, missing)]
    for values, named, may_miss in (*parts, (record.u, columns.external, False)):
        if values is None:
            continue
        wrong = ~np.isfinite(values) & ~(may_miss & np.isnan(values))
        if not wrong.any():
            continue
        k, i = np.argwhere(wrong)[0]
        what = f"{values[k, i]} in column '{named[i].name}' in row {record.rows[k]} (sample {k}, t = {record.ts[k]:g})"
        if np.isnan(values[k, i]) and values is not record.u:
            advice = "repair the row, or choose --set gaps=bridge (the smoother fills it) or --set gaps=split"
        else:
            advice = "remove or repair the row"
        raise InputError(f"{origin}: {what}; every value must be finite: {advice}")


def without_jumps(record: Record, columns: Columns) -> tuple[Record, list[str]]:
    """Angles that were kept within one turn, without their jumps."""
    q, notes = record.q, []
    for i, column in enumerate(columns.coordinates):
        there = np.isfinite(q[:, i])
        angle = q[there, i]
        if not column.angle or len(angle) < 2 or np.ptp(angle) > 2 * np.pi * (1 + 1e-6):
            continue
        jumps = int(np.sum(np.abs(np.diff(angle)) > np.pi))
        if jumps:
            q = q.copy()
            q[there, i] = np.unwrap(angle)
            notes.append(f"{column.name}: {jumps} jumps of a whole turn taken out")
    return dataclasses.replace(record, q=q), notes


def gaps_of(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The usual time step around each step, and the steps that are gaps."""
    steps = np.diff(ts)
    if len(steps) < 3:
        return steps, np.empty(0, int)
    around = scipy.ndimage.median_filter(steps, size=11, mode="mirror")
    return around, np.flatnonzero(steps > GAP * around)


def _split(record: Record, pauses: np.ndarray) -> tuple[list[Record], list[str]]:
    """The complete stretches between missing samples and gaps."""
    there = np.flatnonzero(~record.missing)
    if not len(there):
        return [], []
    cut = (np.diff(there) > 1) | np.array(
        [np.any((pauses >= a) & (pauses < b)) for a, b in itertools.pairwise(there)], bool
    )
    notes = [f"{len(record) - len(there)} incomplete samples left out"] if len(there) < len(record) else []
    notes += [f"cut at {len(pauses)} gaps in time"] if len(pauses) else []
    return [record[rows] for rows in np.split(there, np.flatnonzero(cut) + 1)], notes


def _bridged(record: Record, steps: np.ndarray, pauses: np.ndarray) -> tuple[list[Record], list[str]]:
    """Missing samples, and times inserted in gaps, that are few enough for the smoother; cut elsewhere."""
    usual = float(np.median(np.diff(record.ts))) if len(record) > 1 else 0.0
    long = [k for k in pauses if record.ts[k + 1] - record.ts[k] > BRIDGE * usual]
    for values in (record.q, record.v):
        for i in range(0 if values is None else values.shape[1]):
            there = np.flatnonzero(np.isfinite(values[:, i]))  # pyright: ignore
            wide = np.flatnonzero((np.diff(there) > 1) & (np.diff(record.ts[there]) > BRIDGE * usual))
            long += [k for j in wide for k in range(there[j], there[j + 1])]
    pieces = [_trimmed(record[rows]) for rows in np.split(np.arange(len(record)), np.unique(np.array(long, int)) + 1)]
    pieces = [piece for piece in pieces if len(piece)]
    inserted = 0
    for k in pauses:
        if k in long:
            continue
        count = round(float(record.ts[k + 1] - record.ts[k]) / float(steps[k])) - 1
        new = np.linspace(record.ts[k], record.ts[k + 1], count + 2)[1:-1]
        pieces = [_with_times(piece, new) for piece in pieces]
        inserted += count
    missing = sum(int(piece.missing.sum()) for piece in pieces) - inserted
    left_out = len(record) + inserted - sum(map(len, pieces))
    notes = [f"{missing} incomplete samples bridged by the smoother"] if missing else []
    notes += [f"{inserted} samples inserted in gaps and bridged by the smoother"] if inserted else []
    notes += [f"{left_out} incomplete samples in long gaps or at the ends left out"] if left_out else []
    return pieces, notes


def _trimmed(record: Record) -> Record:
    """The record from its first to its last complete sample."""
    there = np.flatnonzero(~record.missing)
    return record[there[0] : there[-1] + 1] if len(there) else record[:0]


def _with_times(record: Record, new: np.ndarray) -> Record:
    """The record with missing samples at new times inside it; inputs run straight there, as between all samples."""
    if not len(record) or not record.ts[0] < new[0] < record.ts[-1]:
        return record
    k = int(np.searchsorted(record.ts, new[0]))

    def widened(values: np.ndarray, filled) -> np.ndarray:
        return np.insert(values, k, filled, axis=0)

    nothing = np.full((len(new), record.q.shape[1]), np.nan)
    u = record.u
    between = None if u is None else np.stack([np.interp(new, record.ts, column) for column in u.T], axis=1)
    return Record(
        record.name,
        widened(record.rows, np.full(len(new), record.rows[k - 1])),
        widened(record.ts, new),
        widened(record.q, nothing),
        None if record.v is None else widened(record.v, nothing),
        None if u is None else widened(u, between),
        None if record.train is None else widened(record.train, np.full(len(new), record.train[k - 1])),
    )
