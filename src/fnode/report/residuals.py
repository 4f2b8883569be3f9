"""What the fitted field leaves of its labels at the training samples."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.field import AbstractField
from fnode.learn import Run
from fnode.methods import method_named
from fnode.preparation import part_of
from fnode.report.figures import OTHER, PREDICTED, band, dots, label, styled
from fnode.trajectory import Column

BINS = 41


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Label minus field at the labelled samples of all training parts, and the labels' deviations where known."""

    columns: tuple[Column, ...]
    ts: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    sd: np.ndarray | None

    @classmethod
    def of(cls, run: Run) -> "Residuals | None":
        """None where no field was fitted to labels."""
        part, seed = run.chosen
        field = part.seeds[seed].field
        if not part.labels or not isinstance(field, AbstractField) or not method_named(run.config.model).labels:
            return None
        observed = [recording for recording in part.recordings if recording.observed is not None]
        ts, values, labels, sds = [], [], [], []
        for recording, found in zip(observed, part.labels, strict=True):
            samples = part_of(recording, found, run.config.labels).samples
            rate = _rates(field, samples.t, samples.x, samples.u)
            ts.append(np.asarray(samples.t))
            labels.append(np.asarray(samples.rate))
            values.append(labels[-1] - np.asarray(rate.q if run.model.columns.first_order else rate.v))
            if found.rate.sd is not None:
                sds.append(found.rate.sd[found.rate.known.all(axis=1)])
        sd = np.concatenate(sds) if len(sds) == len(observed) else None
        columns = run.model.columns
        of = columns.accelerations or tuple(column.rate for column in columns.coordinates)
        return cls(of, np.concatenate(ts), np.concatenate(values), np.concatenate(labels), sd)

    def rows(self) -> list[dict]:
        """A line of the table for each label: what is left of it, beside its own deviation and its spread."""
        left, spread = np.sqrt(np.mean(self.values**2, axis=0)), np.std(self.labels, axis=0)
        own = None if self.sd is None else np.sqrt(np.mean(self.sd**2, axis=0))
        inside = None if self.sd is None else np.mean(np.abs(self.values) <= 2 * self.sd, axis=0)
        return [
            {
                "column": column,
                "left": float(left[i]),
                "relative": float(left[i] / spread[i]) if spread[i] > 0 else None,
                "sd": None if own is None else float(own[i]),
                "inside": None if inside is None else float(inside[i]),
            }
            for i, column in enumerate(self.columns)
        ]


@eqx.filter_jit
def _rates(field, ts, x, u):
    return jax.vmap(field, in_axes=(0, 0, None if u is None else 0))(ts, x, u)


def remaining(residuals: Residuals, which: Sequence[int]) -> go.Figure:
    """The residual of some labels over time, with twice its own deviation as a band, and how often it is how large."""
    rows = len(which)
    figure = make_subplots(
        rows, 2, column_widths=[0.68, 0.32], vertical_spacing=0.25 / rows, horizontal_spacing=0.1, shared_yaxes=True
    )
    order = np.argsort(residuals.ts, kind="stable")
    for row, i in enumerate(which):
        place: Any = {"row": row + 1, "col": 1}
        values, legend = residuals.values[:, i], row == 0
        if residuals.sd is not None:
            ts, two = _outline(residuals.ts[order], 2 * residuals.sd[order, i])
            figure.add_trace(band(ts, -two, two, "two deviations of the label", OTHER, legend=legend), **place)
        drawn = dots(residuals.ts[order], values[order], "label - field", PREDICTED, legend=legend)
        figure.add_trace(drawn, **place)
        counts, edges = np.histogram(values[np.isfinite(values)], BINS)
        middle = (edges[1:] + edges[:-1]) / 2
        bars = go.Bar(x=counts, y=middle, orientation="h", marker_color=PREDICTED, showlegend=False, name="samples")
        figure.add_trace(bars, row=row + 1, col=2)
        figure.update_yaxes(title_text=f"residual of {label(residuals.columns[i])}", row=row + 1, col=1)
    figure.update_xaxes(title_text="t (s)", row=rows, col=1)
    figure.update_xaxes(title_text="samples", row=rows, col=2)
    return styled(figure, height=110 + 210 * rows).update_layout(bargap=0)


def _outline(ts: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The typical value over time, at few enough places to draw."""
    pieces = [piece for piece in np.array_split(np.arange(len(ts)), 300) if len(piece)]
    return np.array([ts[piece].mean() for piece in pieces]), np.array([np.median(values[piece]) for piece in pieces])
