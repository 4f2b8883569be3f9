"""How far the rollouts are from the truth, and how that grows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fnode.learn import Run
from fnode.metrics import flat
from fnode.recording import Recording
from fnode.report.figures import OTHER, PREDICTED, TRUE, band, label, line, logarithmic, state_panels, styled
from fnode.trajectory import Columns

MOST_BINS = 300
LARGE = 0.1  # of the motion's spread: an error one would see in a plot
PARTS = {"training part": PREDICTED, "held-out part": OTHER}


@dataclasses.dataclass(frozen=True)
class Errors:
    """The errors of the chosen member's rollouts, and the spread of each state component in the truth."""

    columns: Columns
    recordings: tuple[Recording, ...]
    values: tuple[np.ndarray, ...]  # samples by state components, one array for each recording
    spread: np.ndarray

    @classmethod
    def of(cls, run: Run) -> "Errors":
        part, seed = run.chosen
        truths = [np.asarray(recording.truth.states) for recording in part.recordings]
        found = [
            np.abs(np.asarray(flat(predicted)) - true)
            for predicted, true in zip(part.predictions[seed], truths, strict=True)
        ]
        spread = np.std(np.concatenate(truths), axis=0)
        return cls(run.model.columns, part.recordings, tuple(found), np.where(spread > 0, spread, 1.0))

    @property
    def relative(self) -> list[np.ndarray]:
        """All components together at every sample, each in units of its spread; infinite where a rollout got lost."""
        with np.errstate(over="ignore"):
            found = [np.sqrt(np.mean((error / self.spread) ** 2, axis=1)) for error in self.values]
        return [np.where(np.isfinite(each), each, np.inf) for each in found]

    def typical(self, held_out: bool) -> float | None:
        """The root mean square of the relative error over training or held-out parts: the median over recordings."""
        parts = [
            each[recording.training :] if held_out else each[: recording.training]
            for each, recording in zip(self.relative, self.recordings, strict=True)
        ]
        with np.errstate(over="ignore"):
            found = [float(np.sqrt(np.mean(part**2))) for part in parts if len(part)]
        return float(np.median(found)) if found and np.isfinite(np.median(found)) else None

    def sentence(self) -> str:
        """When the error has grown large."""
        reached = [
            first_beyond(r.truth.ts, each, LARGE) for r, each in zip(self.recordings, self.relative, strict=True)
        ]
        times = [t for t in reached if t is not None]
        count = len(self.recordings)
        if count == 1:
            when = f"first exceeds it at t = {times[0]:.3g} s" if times else "stays below it to the end"
        elif times:
            when = f"exceeds it in {len(times)} of {count} recordings, first at t = {min(times):.3g} s"
        else:
            when = f"stays below it to the end in all {count} recordings"
        return f"Take a tenth of the motion's spread as a large error: the rollout, all quantities together, {when}."


def first_beyond(ts, values: np.ndarray, limit: float) -> float | None:
    """The first time at which a value is above a limit."""
    above = np.flatnonzero(values > limit)
    return float(np.asarray(ts)[above[0]]) if len(above) else None


def growth(errors: Errors, which: Sequence[int]) -> go.Figure:
    """The error of some coordinates and their velocities over time, on a logarithmic axis."""
    figure, panels = state_panels(errors.columns, which)
    for number, (i, row, col) in enumerate(panels):
        place: Any = {"row": row, "col": col}
        legend = number == 0
        ts = over_recordings(figure, errors.recordings, [each[:, i] for each in errors.values], place, legend=legend)
        limit = np.full(2, errors.spread[i])
        figure.add_trace(line(ts, limit, "spread of the motion", TRUE, dash="dot", legend=legend), **place)
        logarithmic(figure, f"error of {label(errors.columns.state[i])}", **place)
        if row == len(which):
            figure.update_xaxes(title_text=time_axis(errors.recordings), **place)
    return styled(figure, height=110 + 210 * len(which))


def time_axis(recordings: Sequence[Recording]) -> str:
    return "t (s)" if len(recordings) == 1 else "time since the first sample (s)"


def over_recordings(
    figure: go.Figure, recordings: Sequence[Recording], values: Sequence[np.ndarray], place: Any, *, legend: bool
) -> np.ndarray:
    """Draw a positive quantity along all recordings, apart for training and held-out parts: its median and, where there
    are several recordings, the range of the middle four fifths of them. Returns where the time begins and ends."""
    begins = float(recordings[0].truth.ts[0]) if len(recordings) == 1 else 0.0
    elapsed = [np.asarray(recording.truth.ts - recording.truth.ts[0]) for recording in recordings]
    longest = max(elapsed, key=lambda ts: ts[-1])
    edges = np.linspace(0.0, longest[-1] or 1.0, min(MOST_BINS, -(-len(longest) // 2)) + 1)
    ts = begins + (edges[1:] + edges[:-1]) / 2
    for held_out, (name, colour) in enumerate(PARTS.items()):
        stretches = [
            slice(recording.training, None) if held_out else slice(recording.training) for recording in recordings
        ]
        rows = np.stack([_largest(t[s], each[s], edges) for t, each, s in zip(elapsed, values, stretches, strict=True)])
        there = ~np.all(np.isnan(rows), axis=0)
        if not np.any(there):
            continue
        low, middle, high = (_ranked(rows[:, there], share) for share in (0.1, 0.5, 0.9))
        if len(recordings) > 1:
            figure.add_trace(band(ts[there], low, high, f"{name}, range", colour, legend=legend), **place)
        figure.add_trace(line(ts[there], middle, name, colour, legend=legend), **place)
    return np.array([begins, begins + edges[-1]])


def _largest(ts: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The largest value between edges; nan where there is none, infinite where a rollout got lost."""
    found = np.full(len(edges) - 1, np.nan)
    where = np.clip(np.searchsorted(edges, ts, side="right") - 1, 0, len(found) - 1)
    np.fmax.at(found, where, np.where(np.isfinite(values), values, np.inf))
    return found


def _ranked(rows: np.ndarray, share: float) -> np.ndarray:
    """The value that a share of the rows does not exceed, column by column; zero, which a logarithmic axis lacks, and
    infinity become gaps. Every column has at least one value."""
    count = np.sum(~np.isnan(rows), axis=0)
    place = np.round(share * (count - 1)).astype(int)
    found = np.take_along_axis(np.sort(rows, axis=0), place[None], axis=0)[0]
    return np.where((found > 0) & np.isfinite(found), found, np.nan)
