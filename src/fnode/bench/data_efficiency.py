"""How much data is enough: the error of a fixed horizon against the length of the training part."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYSTEMS = ("cart_pole", "triple_mass_spring_damper")
RECIPES = ("paper", "network", "auto")
LENGTHS = (50, 100, 150, 200, 300)
HORIZON = 400  # samples of the rollout that is scored, whatever part of them was for training
LOST = 1e6  # a mean squared error above which a rollout is drawn as one that left for good
COLOURS = {"paper": "#8c564b", "network": "#1f77b4", "auto": "#2ca02c"}
MARKS = {"paper": "s", "network": "o", "auto": "^"}


class DataEfficiency(AbstractExperiment):
    """The first 50 to 300 samples are for training; every rollout covers the same 400 samples."""

    name = "data_efficiency"
    title = "Error against the length of the training part"

    def cells(self, seeds, quick):
        if quick:
            return [cell(SYSTEMS[1], recipe, train, 1, epochs=2) for recipe in RECIPES[::2] for train in LENGTHS[:1]]
        return [cell(system, recipe, train, seeds) for system in SYSTEMS for recipe in RECIPES for train in LENGTHS]

    def present(self, results):
        return [_table(system, results) for system in _systems(results)]

    def figures(self, results):
        caption = (
            f"Error of {HORIZON} samples against the length of the training part: medians over seeds and their range. "
            f"A cross at the upper edge marks a median rollout that left for good; ranges end at {LOST:.0e}."
        )
        return [Drawing(self.name, caption, _figure(results))]


def cell(system: str, recipe: str, train: int, seeds: int, epochs: int | None = None) -> Cell:
    """All seeds of one recipe on one length; `epochs` bounds what is trained by descent."""
    settings: dict[str, Any] = {"data": {"steps": HORIZON, "train": train}}
    if epochs is not None and recipe == "paper":
        settings["training"] = {"epochs": epochs}
    inputs = {"system": system, "model": "fnode", "recipe": recipe, "seeds": seeds, "settings": settings}
    return Cell("learned", inputs, 4.0 if recipe == "network" else 1.0)


def _train(cell: Cell) -> int:
    return cell.inputs["settings"]["data"]["train"]


def _systems(results) -> list[str]:
    return list(dict.fromkeys(cell.inputs["system"] for cell, _ in results))


def _values(result: dict[str, Any]) -> list[float]:
    """The errors of the seeds; a rollout that left for good is infinitely wrong."""
    errors = [entry["mse"]["full"] for entry in result["seeds"]]
    return [math.inf if value is None else value for value in errors]


def _curves(system: str, results) -> Iterator[tuple[str, list[tuple[int, list[float]]]]]:
    """For every recipe the lengths in rising order, each with the errors of its seeds."""
    for recipe in RECIPES:
        found = [
            (_train(cell), _values(result))
            for cell, result in results
            if (cell.inputs["system"], cell.inputs["recipe"]) == (system, recipe)
        ]
        if found:
            yield recipe, sorted(found)


def _table(system: str, results) -> Heading:
    curves = dict(_curves(system, results))
    structures = {
        (cell.inputs["recipe"], _train(cell)): result["structure"]
        for cell, result in results
        if cell.inputs["system"] == system
    }
    rows = []
    for train in sorted({train for curve in curves.values() for train, _ in curve}):
        row = [str(train)]
        for recipe, curve in curves.items():
            values = dict(curve).get(train)
            row.append("-" if values is None else f"{shown(values, '.1e')}, {structures[recipe, train]}")
        rows.append(tuple(row))
    text = (
        f"Mean squared error of the rollout over {HORIZON} samples from the first one, median (range) over seeds, and "
        "the structure of the seed that the training part alone chose. A single figure has no randomness, or one seed."
    )
    return Heading(system, text, ("training samples", *curves), tuple(rows))


def _figure(results) -> "Figure":
    """Medians as lines, ranges over seeds as bands; a cross at the upper edge where the median left for good."""
    from matplotlib.figure import Figure  # slow to import, and only a drawing needs it

    systems = _systems(results)
    figure = Figure(figsize=(4.2 * len(systems), 3.4), layout="constrained")
    for axes, system in zip(np.atleast_1d(figure.subplots(1, len(systems))), systems, strict=True):
        for recipe, curve in _curves(system, results):
            lengths = [train for train, _ in curve]
            low, mid, high = (np.array([f(values) for _, values in curve]) for f in (min, np.median, max))
            low, high = np.minimum(low, LOST), np.minimum(high, LOST)
            mid = np.where(mid < LOST, mid, np.nan)
            axes.fill_between(lengths, low, high, color=COLOURS[recipe], alpha=0.2, linewidth=0)
            axes.plot(lengths, mid, color=COLOURS[recipe], marker=MARKS[recipe], label=recipe)
            left = [train for train, value in zip(lengths, mid, strict=True) if np.isnan(value)]
            edge = axes.get_xaxis_transform()  # heights as shares of the panel
            axes.scatter(left, [0.97] * len(left), color=COLOURS[recipe], marker="x", transform=edge, zorder=3)
        axes.set_yscale("log")
        axes.margins(y=0.12)  # the upper edge belongs to the crosses
        axes.set_title(system.replace("_", " "))
        axes.set_xlabel("training samples")
        axes.set_ylabel(f"mean squared error, {HORIZON} samples")
        axes.set_xticks(sorted({_train(cell) for cell, _ in results}))
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
