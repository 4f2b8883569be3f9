"""The pictures of a report, as plotly figures: true and predicted motion, phase portraits, loss."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.learn import Run
from fnode.recording import Recording
from fnode.trajectory import Column, State

# Okabe and Ito's palette: told apart by readers with any kind of colour vision.
TRUE, PREDICTED, OTHER, SHADE = "#7f7f7f", "#0072B2", "#D55E00", "rgba(213, 94, 0, 0.10)"
GIVEN = "rgba(0, 114, 178, 0.15)"
MOST_POINTS = 1000  # of a line: a page of long records stays small
MOST_PHASE_POINTS = 60_000  # of all phase portraits together


def motion(recording: Recording, predicted: State, given: int = 1) -> go.Figure:
    """Every state component over time; the test part is shaded, and so are true samples given to the model."""
    columns = recording.truth.columns.state
    rows = len(recording.truth.columns.coordinates)
    across = len(columns) // rows
    figure = make_subplots(
        rows, across, shared_xaxes=True, vertical_spacing=0.25 / rows, horizontal_spacing=0.12, start_cell="top-left"
    )
    ts = np.asarray(recording.truth.ts)
    true = np.asarray(recording.truth.states)
    guess = np.concatenate([predicted.q, predicted.v], axis=-1)
    for i, column in enumerate(columns):
        row, col = i % rows + 1, i // rows + 1
        figure.add_trace(_line(ts, true[:, i], "truth", TRUE, width=4, legend=i == 0), row=row, col=col)
        figure.add_trace(_line(ts, guess[:, i], "model", PREDICTED, dash="dash", legend=i == 0), row=row, col=col)
        figure.update_yaxes(title_text=label(column), row=row, col=col)
        place: Any = {"row": row, "col": col}  # plotly's stub wants text here, plotly itself numbers
        if given > 1:
            figure.add_vrect(ts[0], ts[min(given, len(ts)) - 1], fillcolor=GIVEN, line_width=0, **place)
        if 0 < recording.training < len(ts):
            figure.add_vrect(ts[recording.training], ts[-1], fillcolor=SHADE, line_width=0, **place)
    for col in range(across):
        figure.update_xaxes(title_text="t (s)", row=rows, col=col + 1)
    return styled(figure, height=110 + 210 * rows)


def phases(run: Run) -> go.Figure:
    """Velocity against coordinate: the training part dashed, the test part dotted, as in the paper."""
    part, seed = run.chosen
    columns = run.model.columns
    panels = [(k, i) for k in range(len(part.recordings)) for i in range(len(columns.coordinates))]
    across = min(len(panels), 4 if len(part.recordings) > 1 else 3)
    rows = -(-len(panels) // across)
    several = len(part.recordings) > 1
    titles = [part.recordings[k].name for k, _ in panels] if several else None
    figure = make_subplots(
        rows, across, subplot_titles=titles, horizontal_spacing=0.3 / across, vertical_spacing=0.3 / rows
    )
    told: set[str] = set()
    most = min(MOST_POINTS, max(100, MOST_PHASE_POINTS // (2 * len(panels))))
    for number, (k, i) in enumerate(panels):
        recording, predicted = part.recordings[k], part.predictions[seed][k]
        row, col = number // across + 1, number % across + 1
        truth, samples = recording.truth.x, recording.training
        lines = [
            ("truth", truth, slice(None), TRUE, "solid", 4),
            ("model, training part", predicted, slice(samples), PREDICTED, "dash", 2),
            ("model, test part", predicted, slice(max(samples - 1, 0), None), OTHER, "dot", 2),
        ]
        for name, x, stretch, colour, dash, width in lines:
            if x.q[stretch].shape[0] > 1:
                style: Any = {"width": width, "dash": dash, "legend": name not in told, "most": most}
                figure.add_trace(_line(x.q[stretch, i], x.v[stretch, i], name, colour, **style), row=row, col=col)
                told.add(name)
        figure.update_xaxes(title_text=label(columns.coordinates[i]), row=row, col=col)
        figure.update_yaxes(title_text=label(columns.velocities[i]), row=row, col=col)
    return styled(figure, height=120 + 300 * rows, legend_above=60 if several else 0)


def losses(run: Run) -> go.Figure:
    """The training loss of every seed over the epochs or iterations."""
    figure = go.Figure()
    palette = [PREDICTED, OTHER, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
    several = len(run.trained) > 1
    for part in run.trained:
        for seed, learned in enumerate(part.seeds):
            name = f"seed {run.config.seed + seed}" + (f", start {part.start}" if several else "")
            colour = palette[(part.start * run.config.seeds + seed) % len(palette)]
            figure.add_trace(_line(np.arange(1, len(learned.history) + 1), learned.history, name, colour))
    figure.update_xaxes(title_text="iteration" if run.trained[0].seeds[0].ranking else "epoch")
    figure.update_yaxes(title_text="training loss", type="log", exponentformat="power")
    return styled(figure, height=380)


def label(column: Column) -> str:
    """Name and unit, for an axis."""
    return f"{column.name} ({column.unit})" if column.unit else column.name


def _line(x, y, name, colour, *, width=2, dash="solid", legend=True, most=MOST_POINTS):
    style = {"color": colour, "width": width, "dash": dash}
    count = len(x)
    step = max(1, -(-count // most))
    seen = np.unique(np.append(np.arange(0, count, step), count - 1)) if count else slice(0)
    shown = [np.asarray(values)[seen] for values in (x, y)]
    return go.Scatter(x=shown[0], y=shown[1], mode="lines", name=name, legendgroup=name, showlegend=legend, line=style)


def styled(figure: go.Figure, *, height: int, legend_above: int = 0) -> go.Figure:
    """The look of all pictures; `legend_above` leaves so many pixels for titles between legend and panels."""
    lift = legend_above / max(height - 110 - legend_above, 1)
    return figure.update_layout(
        height=height,
        template="plotly_white",
        margin={"l": 80, "r": 20, "t": 50 + legend_above, "b": 60},
        legend={"orientation": "h", "y": 1.0 + lift, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
