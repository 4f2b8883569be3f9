"""What the paper's figures have in common: colours, dashes, names of axes."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUTH = "#7f7f7f"
# Okabe and Ito's palette: told apart by readers with any kind of colour vision.
COLOURS = {"fnode": "#0072B2", "mbd_node": "#D55E00", "lstm": "#009E73", "fcnn": "#CC79A7"}
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
TEST = "#f4ece6"  # the shade behind what training did not see
GREEK = ("theta",)


def panels(rows: int, across: int, *, width: float = 7.2, height: float = 1.9, **options) -> tuple["Figure", Any]:
    """A figure and its grid of axes; `height` is that of one row, in inches."""
    from matplotlib.figure import Figure  # slow to import, and only a drawing needs it

    figure = Figure(figsize=(width, height * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, across, squeeze=False, **options)
    for one in axes.flat:
        one.grid(alpha=0.25, linewidth=0.6)
        one.tick_params(labelsize=8)
    return figure, axes


def symbol(name: str) -> str:
    """The name of a quantity as a formula: `d_theta1` is a theta with a dot and an index."""
    rate = name.startswith("d_")
    letters, index = re.fullmatch(r"(?:d_)?([A-Za-z]+)(\d*)", name).groups()  # pyright: ignore
    letters = rf"\{letters}" if letters in GREEK else letters
    return (
        rf"$\dot{{{letters}}}{f'_{index}' if index else ''}$" if rate else rf"${letters}{f'_{index}' if index else ''}$"
    )


def quantity(name: str, units: dict[str, str]) -> str:
    """Symbol and unit, for an axis."""
    return f"{symbol(name)} ({units[name]})" if units.get(name) else symbol(name)


def in_two_parts(axes: "Axes", x, y, training: int, colour: str, name: str | None = None) -> None:
    """A prediction: dashed where training saw the motion, dotted beyond, as in the paper."""
    axes.plot(x[:training], y[:training], color=colour, linestyle=(0, (5, 2)), linewidth=1.3, label=name)
    later = slice(max(training - 1, 0), None)
    axes.plot(x[later], y[later], color=colour, linestyle=(0, (1, 1.2)), linewidth=1.6)


def around(axes: "Axes", values, *, axis: str = "y", room: float = 0.45) -> None:
    """Limits that follow the truth: a prediction that leaves does not flatten everything else."""
    low, high = float(np.min(values)), float(np.max(values))
    span = max(high - low, 0.1)
    limits = (low - room * span, high + room * span)
    axes.set_ylim(*limits) if axis == "y" else axes.set_xlim(*limits)


def shade_test(axes: "Axes", ts, training: int) -> None:
    if 0 < training < len(ts):
        axes.axvspan(ts[training], ts[-1], color=TEST, linewidth=0, zorder=0)
