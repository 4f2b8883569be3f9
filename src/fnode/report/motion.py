"""True and predicted motion: over time, and as phase portraits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.learn import Run
from fnode.recording import Recording
from fnode.report.figures import OTHER, PREDICTED, TRUE, escaped, faint, in_sight, label, line, state_panels, styled
from fnode.trajectory import State

MOST_PANELS = 16  # of phase portraits


def motion(recording: Recording, predicted: State, which: Sequence[int], given: int = 1) -> go.Figure:
    """Some coordinates and their velocities over time; the test part is shaded, and so are true samples given to the
    model."""
    columns = recording.truth.columns
    figure, panels = state_panels(columns, which)
    ts = np.asarray(recording.truth.ts)
    true = np.asarray(recording.truth.states)
    guess = np.concatenate([predicted.q, predicted.v], axis=-1)
    for number, (i, row, col) in enumerate(panels):
        place: Any = {"row": row, "col": col}  # plotly's stub wants text here, plotly itself numbers
        legend, seen = number == 0, in_sight(guess[:, i], true[:, i])
        figure.add_trace(line(ts, true[:, i], "truth", TRUE, width=4, legend=legend), **place)
        figure.add_trace(line(ts, seen, "model", PREDICTED, dash="dash", legend=legend), **place)
        figure.update_yaxes(title_text=label(columns.state[i]), **place)
        if row == len(which):
            figure.update_xaxes(title_text="t (s)", **place)
        if given > 1:
            figure.add_vrect(ts[0], ts[min(given, len(ts)) - 1], fillcolor=faint(PREDICTED), line_width=0, **place)
        if 0 < recording.training < len(ts):
            figure.add_vrect(ts[recording.training], ts[-1], fillcolor=faint(OTHER, 0.1), line_width=0, **place)
    return styled(figure, height=110 + 210 * len(which))


def shading(recording: Recording) -> str:
    """What a shaded part means, or that there is none because all was held out."""
    if recording.training == 0:
        return "This trajectory was held out: the model never saw it."
    return "The shaded part was not used for training." if recording.training < len(recording.truth) else ""


def phase_panels(run: Run) -> list[tuple[int, int]]:
    """The recordings and coordinates to draw: `MOST_PANELS` at most, held-out recordings first, evenly chosen."""
    recordings = run.chosen[0].recordings
    coordinates = range(len(run.model.columns.coordinates))[:MOST_PANELS]
    order = sorted(range(len(recordings)), key=lambda k: recordings[k].training > 0)
    room = MOST_PANELS // len(coordinates)
    places = np.unique(np.linspace(0, len(order) - 1, min(room, len(order))).round().astype(int))
    return [(order[k], i) for k in places for i in coordinates]


def phases(run: Run) -> go.Figure:
    """Velocity against coordinate: the training part dashed, the test part dotted, as in the paper."""
    part, seed = run.chosen
    columns, panels = run.model.columns, phase_panels(run)
    several = len(part.recordings) > 1
    across = min(len(panels), 4 if several else 3)
    rows = -(-len(panels) // across)
    titles = [escaped(part.recordings[k].name) for k, _ in panels] if several else None
    figure = make_subplots(
        rows, across, subplot_titles=titles, horizontal_spacing=0.3 / across, vertical_spacing=0.3 / rows
    )
    told: set[str] = set()
    for number, (k, i) in enumerate(panels):
        recording, predicted = part.recordings[k], part.predictions[seed][k]
        row, col = number // across + 1, number % across + 1
        truth, samples = recording.truth.x, recording.training
        true = np.asarray(truth.q[:, i]), np.asarray(truth.v[:, i])
        seen = in_sight(predicted.q[:, i], true[0]), in_sight(predicted.v[:, i], true[1])
        lines = [
            ("truth", true, slice(None), TRUE, "solid", 4),
            ("model, training part", seen, slice(samples), PREDICTED, "dash", 2),
            ("model, held-out part", seen, slice(max(samples - 1, 0), None), OTHER, "dot", 2),
        ]
        for name, (q, v), stretch, colour, dash, width in lines:
            if len(q[stretch]) > 1:
                style: Any = {"width": width, "dash": dash, "legend": name not in told}
                figure.add_trace(line(q[stretch], v[stretch], name, colour, **style), row=row, col=col)
                told.add(name)
        figure.update_xaxes(title_text=label(columns.coordinates[i]), row=row, col=col)
        figure.update_yaxes(title_text=label(columns.velocities[i]), row=row, col=col)
    return styled(figure, height=120 + 270 * rows, legend_above=40 if several else 0)
