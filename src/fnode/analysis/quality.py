"""The quality of a record: how it was sampled, how noisy it is, and whether it can teach a field.

Nothing is mended here and nothing refused: flaws that learning would refuse are counted and told.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from fnode.analysis.redundancy import Bound, bound
from fnode.derivatives import LARGEST, Labels, disturbances, label, measured_noise, robust_sd
from fnode.errors import InputError
from fnode.io import Roles, Understood, gaps_of, is_text, read_table, records, understood
from fnode.io.cleaning import SHORTEST, Record
from fnode.trajectory import Column

LOOKED_AT = 4  # trajectories whose derivatives are drawn
LONGEST = 2000  # samples of each of them
SPIKE = 8.0  # deviations from its neighbours at which a sample is called an outlier ...
SPIKE_SHARE = 0.01  # ... if it is also this share of the channel's spread away
FEWEST_PER_OSCILLATION = 10.0
FEWEST_PER_COORDINATE = 50
WORST_LABELS = 0.3  # relative error of the accelerations


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The times of one trajectory: `jitter` is the deviation of its steps, in steps, apart from gaps.

    `repeated` and `backward` are the rows whose time does not come after the one before; `gaps` are rows after which a
    gap begins, with its length.
    """

    name: str
    samples: int
    duration: float
    dt: float | None
    jitter: float | None
    gaps: tuple[tuple[int, float], ...]
    repeated: tuple[int, ...]
    backward: tuple[int, ...]
    missing: int
    split: str | None


@dataclasses.dataclass(frozen=True)
class Channel:
    """One column over all trajectories: its range, what is missing, its noise (also relative to its spread), its
    outliers."""

    name: str
    role: str
    least: float | None
    most: float | None
    missing: int
    noise: float | None
    noise_relative: float | None
    outliers: int


@dataclasses.dataclass(frozen=True)
class Motion:
    """How one coordinate moves, and how well its accelerations are known: medians over the trajectories looked at.

    An oscillation lasts `2 pi sd(v) / sd(a)`.
    """

    name: str
    method: str
    error_relative: float | None
    samples_per_oscillation: float | None
    oscillations: float | None


@dataclasses.dataclass(frozen=True)
class Quality:
    """All that is known of a file before training."""

    roles: Understood
    samplings: tuple[Sampling, ...]
    channels: tuple[Channel, ...]
    motions: tuple[Motion, ...]
    looked_at: int
    bound: Bound | None
    problems: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether the data can be expected to teach a field."""
        return not self.problems

    @property
    def advice(self) -> tuple[str, ...]:
        """What may help, though learning goes on without it."""
        spikes = [channel for channel in self.channels if channel.outliers]
        names = [column.name for column in self.roles.columns.coordinates]
        return (
            *(
                f"{spiky.name}: {spiky.outliers} outliers; labels=auto leaves them aside, loss=huber bounds the rest"
                for spiky in spikes
            ),
            *([self.bound.line(names)] if self.bound else []),
        )

    @property
    def differentiator(self) -> str:
        """The method of differentiation to use: every choice is made by `auto` from the samples."""
        return "auto"


def quality(path, roles: Roles | None = None) -> Quality:
    """What a file is like."""
    table = read_table(path)
    texts = [name for name in table.columns if is_text(table[name])]
    meant = understood(table.columns, roles or Roles(), str(path), texts=texts)
    if len(table) == 0:
        raise InputError(f"{path}: got no samples, need at least one")
    found = list(records(table, meant, str(path)))
    for record in found:
        if np.any(np.abs(record.q) > LARGEST) or (record.v is not None and np.any(np.abs(record.v) > LARGEST)):
            raise InputError(f"{path}: got values beyond {LARGEST:g}: choose larger units")
    samplings = tuple(sampling(record) for record in found)
    sound = [_without_missing_times(record) for record in found]
    sound = [record for record in sound if len(record) >= SHORTEST and np.all(np.diff(record.ts) > 0)]
    channels = tuple(_channels(found, sound, meant))
    looked_at = [record[:LONGEST] for record in _spread(sound, LOOKED_AT)]
    labels = [found for record in looked_at if (found := _labels(record, meant)) is not None]
    motions = _motions(looked_at, labels, meant)
    together = bound([(r.ts, r.q) for r in sound], [column.angle for column in meant.columns.coordinates])
    problems = tuple(_problems(samplings, channels, motions))
    return Quality(meant, samplings, channels, motions, len(labels), together, problems)


def sampling(record: Record) -> Sampling:
    """How the times of one trajectory run."""
    known = np.isfinite(record.ts)
    ts, rows = record.ts[known], record.rows[known]
    steps = np.diff(ts)
    forward = steps[steps > 0]
    pauses = gaps_of(ts)[1] if len(forward) == len(steps) else np.empty(0, int)
    usual = np.delete(steps, pauses) if len(forward) == len(steps) else forward
    split = None
    if record.train is not None:
        split = "train" if record.train.all() else "test" if not record.train.any() else "train+test"
    return Sampling(
        record.name,
        len(record),
        float(np.ptp(ts)) if len(ts) else 0.0,
        float(np.median(forward)) if len(forward) else None,
        _jitter(usual) if len(forward) else None,
        tuple((int(rows[k]), float(steps[k])) for k in pauses),
        tuple(int(row) for row in rows[1:][steps == 0]),
        tuple(int(row) for row in rows[1:][steps < 0]),
        int(np.sum(record.missing | ~known)),
        split,
    )


def _jitter(steps: np.ndarray) -> float:
    """The deviation of time steps relative to the usual one; what rounding of the times explains is none."""
    deviation = float(np.std(steps) / np.median(steps)) if len(steps) else 0.0
    return deviation if deviation > 1e-9 else 0.0


def outliers(ts: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Samples far from where their neighbours on both sides would have them."""
    if len(ts) < 12 or np.ptp(y) == 0:
        return np.empty(0, int)
    off = np.abs(disturbances(ts, y, 4))
    floor = max(SPIKE * robust_sd(off), SPIKE_SHARE * float(np.std(y)))
    peaks = [k for k in np.flatnonzero(off > floor) if off[k] == np.max(off[max(0, k - 2) : k + 3])]
    return np.array(peaks, int) + 2


def _without_missing_times(record: Record) -> Record:
    return record[np.isfinite(record.ts)]


def _spread(found: Sequence[Record], count: int) -> list[Record]:
    """A few of the trajectories, evenly chosen."""
    places = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int)) if found else []
    return [found[k] for k in places]


def _channels(found: Sequence[Record], sound: Sequence[Record], meant: Understood):
    columns = meant.columns
    groups = [("coordinate", columns.coordinates, "q"), ("velocity", columns.velocities if meant.measured else (), "v")]
    external = [("input", column) for column in columns.inputs] + [
        ("parameter", column) for column in columns.parameters
    ]
    for role, named, part in groups:
        for i, column in enumerate(named):
            yield _channel(
                column, role, [getattr(r, part)[:, i] for r in found], [(r.ts, getattr(r, part)[:, i]) for r in sound]
            )
    for i, (role, column) in enumerate(external):
        yield _channel(column, role, [r.u[:, i] for r in found if r.u is not None], [])


def _channel(column: Column, role: str, everywhere: Sequence[np.ndarray], tracks) -> Channel:
    values = np.concatenate(everywhere)
    there = values[np.isfinite(values)]
    noises, spikes = [], 0
    for ts, y in tracks:
        known = np.isfinite(y)
        t, z = ts[known], y[known]
        if column.angle:
            z = np.unwrap(z)
        if len(z) >= SHORTEST and np.std(z) > 0:
            start, span, mean, sd = t[0], np.ptp(t), np.mean(z), float(np.std(z))
            noise = measured_noise((t - start) / span, (z - mean) / sd)[0]
            noises.append((noise * sd, noise))
            spikes += len(outliers((t - start) / span, z))
    absolute, relative = (float(np.median(part)) for part in zip(*noises, strict=True)) if noises else (None, None)
    least, most = (float(there.min()), float(there.max())) if len(there) else (None, None)
    return Channel(column.name, role, least, most, len(values) - len(there), absolute, relative, spikes)


def _labels(record: Record, meant: Understood) -> Labels | None:
    """Labels of one record, where there are samples enough for them."""
    try:
        return label(
            record.ts, record.q, record.v, "auto", angles=[column.angle for column in meant.columns.coordinates]
        )
    except InputError:
        return None


def _motions(looked_at: Sequence[Record], labels: Sequence[Labels], meant: Understood) -> tuple[Motion, ...]:
    found = []
    for i, column in enumerate(meant.columns.coordinates if labels else ()):
        errors = [d.error_relative for d in (each.diagnostics[i] for each in labels) if d.error_relative is not None]
        per, turns = [], []
        for record, each in zip(looked_at, labels, strict=False):
            speed = each.v.value[:, i] if each.v is not None else np.empty(0)
            rate = each.rate.value[:, i]
            spread = float(np.nanstd(rate))
            if len(speed) and spread > 0 and np.nanstd(speed) > 0:
                oscillation = 2 * np.pi * float(np.nanstd(speed)) / spread
                per.append(oscillation / float(np.median(np.diff(record.ts))))
                turns.append(float(np.ptp(record.ts)) / oscillation)
        methods = "+".join(sorted({each.diagnostics[i].method for each in labels}))
        found.append(Motion(column.name, methods, _median(errors), _median(per), _median(turns)))
    return tuple(found)


def _problems(samplings: Sequence[Sampling], channels: Sequence[Channel], motions: Sequence[Motion]):
    """What stands in the way of learning, each with what to do about it."""
    for each in samplings:
        where = f"trajectory {each.name}: " if len(samplings) > 1 else ""
        for rows, what in ((each.repeated, "repeat"), (each.backward, "go back")):
            if rows:
                yield f"{where}times {what} in {len(rows)} rows, first in row {rows[0]}: sort them or remove duplicates"
        if each.gaps:
            row, length = each.gaps[0]
            count = len(each.gaps)
            yield f"{where}{count} gaps in time, first {length:.3g} after row {row}: choose gaps=split or gaps=bridge"
    missing = sum(channel.missing for channel in channels if channel.role in ("coordinate", "velocity"))
    if missing:
        yield f"{missing} values are missing: choose gaps=bridge or gaps=split"
    for channel in channels:
        if channel.missing and channel.role in ("input", "parameter"):
            yield f"{channel.role} {channel.name}: {channel.missing} values are missing: fill them"
        if channel.role == "coordinate" and channel.least == channel.most:
            yield f"{channel.name} does not move: leave it out, or give data in which it does"
    total = sum(each.samples for each in samplings if each.split != "test")
    coordinates = sum(1 for channel in channels if channel.role == "coordinate")
    if total < FEWEST_PER_COORDINATE * coordinates:
        yield f"{total} samples for training: need {FEWEST_PER_COORDINATE} for each of {coordinates} coordinates"
    for motion in motions:
        if motion.samples_per_oscillation is not None and motion.samples_per_oscillation < FEWEST_PER_OSCILLATION:
            yield (
                f"{motion.name}: {motion.samples_per_oscillation:.1f} samples per oscillation, "
                f"need {FEWEST_PER_OSCILLATION:.0f}: sample faster"
            )
        if motion.error_relative is not None and motion.error_relative > WORST_LABELS:
            yield f"{motion.name}: accelerations off by {motion.error_relative:.0%}: measure with less noise or faster"
    longest = [motion.oscillations for motion in motions if motion.oscillations is not None]
    if longest and len(samplings) == 1 and max(longest) < 1:
        yield f"the record covers {max(longest):.2f} of an oscillation: record for longer"


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
