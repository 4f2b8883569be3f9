"""What all pictures share: colours, lines, bands, labels of axes, and the layout around the panels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fnode.trajectory import Column, Columns

# Okabe and Ito's palette: told apart by readers with any kind of colour vision, and seen on white and on black.
TRUE, PREDICTED, OTHER, THIRD = "#7f7f7f", "#0072B2", "#D55E00", "#009E73"
MOST_POINTS = 1000  # of a line: a page of long records stays small
FARTHEST = 1.0  # heights of the truth beyond which a lost model is not drawn


def line(x, y, name: str, colour: str, *, width=2.0, dash="solid", legend=True, most=MOST_POINTS) -> go.Scatter:
    """A line of at most `most` points from end to end; lines of one name are switched on and off together."""
    style = {"color": colour, "width": width, "dash": dash, "simplify": False}  # which draws corners into wide curves
    count = len(x)
    step = max(1, -(-count // most))
    seen = np.unique(np.append(np.arange(0, count, step), count - 1)) if count else slice(0)
    shown = [np.asarray(values)[seen] for values in (x, y)]
    return go.Scatter(x=shown[0], y=shown[1], mode="lines", name=name, legendgroup=name, showlegend=legend, line=style)


def dots(x, y, name: str, colour: str, *, legend=True) -> go.Scatter:
    """Samples, at most `MOST_POINTS` of them."""
    # At random: every so-many-th sample could be those of one record alone.
    seen = np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_POINTS])
    marker = {"color": colour, "size": 4, "opacity": 0.7}
    shown = {"x": np.asarray(x)[seen], "y": np.asarray(y)[seen]}
    return go.Scatter(**shown, mode="markers", name=name, legendgroup=name, showlegend=legend, marker=marker)


def band(x, low, high, name: str, colour: str, *, legend=True) -> go.Scatter:
    """The area between two lines."""
    edge = {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([high, low[::-1]])}
    look: Any = {
        "mode": "lines",
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": faint(colour),
        "hoverinfo": "skip",
    }
    return go.Scatter(**edge, **look, name=name, legendgroup=name, showlegend=legend)


def faint(colour: str, opacity: float = 0.22) -> str:
    """A colour one can see through."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def in_sight(values, truth) -> np.ndarray:
    """The values with gaps where they are so far from the truth that drawing them would leave nothing else to see."""
    values, truth = np.asarray(values, float), np.asarray(truth, float)
    low, high = np.nanmin(truth), np.nanmax(truth)
    reach = FARTHEST * ((high - low) or max(abs(high), 1.0))
    return np.where((values > low - reach) & (values < high + reach), values, np.nan)


def label(column: Column) -> str:
    """Name and unit, for an axis; what a file calls it is text, not markup."""
    return escaped(f"{column.name} ({column.unit})" if column.unit else column.name)


def escaped(text: str) -> str:
    """Text as plotly shows it letter by letter: it takes a few tags for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def logarithmic(figure: go.Figure, title: str, **place: Any) -> None:
    """Powers of ten up the axis of the lines drawn so far: a few of them, and no others unless there is only one."""
    traces: Any = figure.select_traces(**place)
    drawn = np.concatenate([np.asarray(trace.y, float) for trace in traces])
    drawn = np.log10(drawn[np.isfinite(drawn) & (drawn > 0)])
    decades = np.ptp(drawn) if len(drawn) else 0
    figure.update_yaxes(type="log", title_text=title, dtick=int(-(-decades // 6)) if decades > 1 else None, **place)


def state_panels(columns: Columns, which: Sequence[int]) -> tuple[go.Figure, list[tuple[int, int, int]]]:
    """Panels for some coordinates, one below the other, their velocities beside them; and for each panel the number of
    its state component, its row and its column."""
    rows, across = len(which), 1 if columns.first_order else 2
    figure = make_subplots(rows, across, shared_xaxes=True, vertical_spacing=0.25 / rows, horizontal_spacing=0.15)
    count = len(columns.coordinates)
    return figure, [(i + k * count, row + 1, k + 1) for row, i in enumerate(which) for k in range(across)]


def styled(figure: go.Figure, *, height: int, legend_above: int = 0) -> go.Figure:
    """The layout of all pictures, whose colours are the page's; `legend_above` leaves so many pixels for titles between
    legend and panels."""
    lift = legend_above / max(height - 110 - legend_above, 1)
    return figure.update_layout(
        height=height,
        template=None,
        margin={"l": 80, "r": 20, "t": 50 + legend_above, "b": 60},
        legend={"orientation": "h", "y": 1.0 + lift, "yanchor": "bottom", "x": 0},
        hovermode="closest",
    )
