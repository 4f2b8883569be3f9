"""The pictures of a report, as plotly figures: true and predicted motion, phase portraits, loss."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.learn import Run, one_member
from fnode.recording import Recording
from fnode.trajectory import Column, State

# Okabe and Ito's palette: told apart by readers with any kind of colour vision.
TRUE, PREDICTED, OTHER, SHADE = "#7f7f7f", "#0072B2", "#D55E00", "rgba(213, 94, 0, 0.10)"


def motion(recording: Recording, predicted: State) -> go.Figure:
    """Every state component over time; the test part is shaded."""
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
        if 0 < recording.training < len(ts):
            place: Any = {"row": row, "col": col}  # plotly's stub wants text here, plotly itself numbers
            figure.add_vrect(ts[recording.training], ts[-1], fillcolor=SHADE, line_width=0, **place)
    for col in range(across):
        figure.update_xaxes(title_text="t (s)", row=rows, col=col + 1)
    return styled(figure, height=110 + 210 * rows)


def phase(recording: Recording, predicted: State) -> go.Figure:
    """Velocity against coordinate: the training part dashed, the test part dotted, as in the paper."""
    coordinates, velocities = recording.truth.columns.coordinates, recording.truth.columns.velocities
    figure = make_subplots(1, len(coordinates), horizontal_spacing=0.12)
    k = recording.training
    for i, (q, v) in enumerate(zip(coordinates, velocities, strict=True)):
        row, col = 1, i + 1
        truth = recording.truth.x
        first = i == 0
        figure.add_trace(_line(truth.q[:, i], truth.v[:, i], "truth", TRUE, width=4, legend=first), row=row, col=col)
        parts = (
            ("model, training part", slice(k), "dash", PREDICTED),
            ("model, test part", slice(max(k - 1, 0), None), "dot", OTHER),
        )
        for name, part, dash, colour in parts:
            if predicted.q[part].shape[0] > 1:
                figure.add_trace(
                    _line(predicted.q[part, i], predicted.v[part, i], name, colour, dash=dash, legend=first),
                    row=row,
                    col=col,
                )
        figure.update_xaxes(title_text=label(q), row=row, col=col)
        figure.update_yaxes(title_text=label(v), row=row, col=col)
    return styled(figure, height=420)


def losses(run: Run) -> go.Figure:
    """The training loss of every seed over the epochs."""
    figure = go.Figure()
    palette = [PREDICTED, OTHER, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
    several = len(run.trained) > 1
    for part in run.trained:
        for seed, history in enumerate(part.fit.history):
            name = f"seed {run.config.seed + seed}" + (f", start {part.start}" if several else "")
            colour = palette[(part.start * run.config.seeds + seed) % len(palette)]
            figure.add_trace(_line(np.arange(1, len(history) + 1), history, name, colour))
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="training loss, mean squared acceleration error", type="log", exponentformat="power")
    return styled(figure, height=380)


def chosen_predictions(run: Run) -> list[tuple[Recording, State]]:
    """Each recording of the chosen start with the chosen seed's rollout."""
    part, seed = run.chosen
    return [(r, one_member(p, seed)) for r, p in zip(part.recordings, part.predictions, strict=True)]


def label(column: Column) -> str:
    """Name and unit, for an axis."""
    return f"{column.name} ({column.unit})" if column.unit else column.name


def _line(x, y, name, colour, *, width=2, dash="solid", legend=True):
    style = {"color": colour, "width": width, "dash": dash}
    return go.Scatter(
        x=np.asarray(x), y=np.asarray(y), mode="lines", name=name, legendgroup=name, showlegend=legend, line=style
    )


def styled(figure: go.Figure, *, height: int) -> go.Figure:
    return figure.update_layout(
        height=height,
        template="plotly_white",
        margin={"l": 80, "r": 20, "t": 50, "b": 60},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
