"""The paper's figures of motions: four models on one system, over time and in the phase plane."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from fnode.bench.drawing import COLOURS, TRUTH, around, in_two_parts, panels, quantity, shade_test
from fnode.bench.experiment import AbstractExperiment, Drawing, Heading, shown
from fnode.bench.published import ERRORS
from fnode.bench.trained import MODELS, over_seeds, trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THIN = 4  # every so many samples of the dependent coordinates are drawn


@dataclasses.dataclass(frozen=True)
class Motions(AbstractExperiment):
    """The chosen seed of each model beside the truth; `time`, `phase` and `complete` are numbers of figures."""

    name: str
    title: str
    system: str
    time: int
    phase: int | None = None
    complete: tuple[int, ...] = ()

    @property
    def paper(self) -> str:  # pyright: ignore
        return ", ".join(
            f"Fig. {number}" for number in sorted({self.time, *([self.phase] if self.phase else []), *self.complete})
        )

    def cells(self, seeds, quick):
        return [cell for model in MODELS for cell in trained(self.system, model, seeds, quick)]

    def present(self, results):
        rows = []
        for cell, result in over_seeds(results):
            model, entries = cell.inputs["model"], result["seeds"]
            errors = [shown([entry["mse"][part] for entry in entries], ".1e") for part in ("full", "train", "test")]
            rows.append((MODELS[model], f"{ERRORS[self.system][model]:.1e}", *errors))
        text = "Mean squared error of the rollout, median (range) over seeds, beside the published figure."
        columns = ("model", "published", "all", "training part", "test part")
        return [Heading(f"Errors of the motions of {self.system}", text, columns, tuple(rows))]

    def figures(self, results):
        found = {cell.inputs["model"]: result for cell, result in over_seeds(results)}
        lines = "Truth grey; dashed: the training part, dotted: beyond it"
        seed = "The seed shown is the best on windows of the training part."
        over_time = f"{lines} (shaded). {seed}"
        drawings = [
            Drawing(
                f"fig{self.time:02d}_{self.system}_time",
                f"Fig. {self.time}: {self.title}, predictions over time. {over_time}",
                _by_model(found, self.system)
                if len(next(iter(found.values()))["coordinates"]) == 1
                else _by_coordinate(found, self.system),
            )
        ]
        if self.phase is not None:
            caption = f"Fig. {self.phase}: {self.title}, phase portraits, model by model. {lines}. {seed}"
            drawings.append(Drawing(f"fig{self.phase:02d}_{self.system}_phase", caption, _phases(found)))
        for number, model in zip(self.complete, MODELS, strict=False):
            caption = (
                f"Fig. {number}: all dependent coordinates and velocities of the {self.title.lower()}, solved from the "
                f"constraints at every sample of the rollout of {MODELS[model]}. {over_time}"
            )
            drawings.append(
                Drawing(f"fig{number:02d}_{self.system}_{model}_all", caption, _complete(found[model], model))
            )
        return drawings


def _chosen(result: dict[str, Any]) -> np.ndarray:
    """The rollout of the chosen seed."""
    return result["arrays"]["0.predicted"][result["chosen"]]


def _errors(result: dict[str, Any], system: str, model: str) -> str:
    error = result["seeds"][result["chosen"]]["mse"]["full"]
    found = "left for good" if error is None else f"{error:.1e}"
    return f"{MODELS[model]}: MSE {found}, published {ERRORS[system][model]:.1e}"


def _by_coordinate(found: dict[str, dict], system: str) -> "Figure":
    """Rows are coordinates, with their velocities to the right; all models in each panel."""
    first = next(iter(found.values()))
    n, training = len(first["coordinates"]), first["training"][0]
    ts, truth = first["arrays"]["0.ts"], first["arrays"]["0.truth"]
    figure, axes = panels(n, 2, width=9.0, height=2.0, sharex=True)
    for i, name in enumerate(first["columns"]):
        one = axes[i % n, i // n]
        shade_test(one, ts, training)
        one.plot(ts, truth[:, i], color=TRUTH, linewidth=2.6, label="truth")
        for model, result in found.items():
            in_two_parts(one, ts, _chosen(result)[:, i], training, COLOURS[model], _errors(result, system, model))
        around(one, truth[:, i])
        one.set_ylabel(quantity(name, first["units"]), fontsize=9)
    for one in axes[-1]:
        one.set_xlabel("t (s)", fontsize=9)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8, frameon=False
    )
    return figure


def _by_model(found: dict[str, dict], system: str) -> "Figure":
    """Rows are models: the coordinate to the left, its velocity to the right."""
    figure, axes = panels(len(found), 2, width=9.0, height=1.8, sharex=True)
    for row, (model, result) in zip(axes, found.items(), strict=True):
        ts, truth, training = result["arrays"]["0.ts"], result["arrays"]["0.truth"], result["training"][0]
        names = [result["coordinates"][0], f"d_{result['coordinates'][0]}"]
        for i, (one, name) in enumerate(zip(row, names, strict=True)):
            shade_test(one, ts, training)
            one.plot(ts, truth[:, i], color=TRUTH, linewidth=2.6)
            in_two_parts(one, ts, _chosen(result)[:, i], training, COLOURS[model])
            around(one, truth[:, i])
            one.set_ylabel(quantity(name, result["units"]), fontsize=9)
        row[0].set_title(_errors(result, system, model), fontsize=9, loc="left")
    for one in axes[-1]:
        one.set_xlabel("t (s)", fontsize=9)
    return figure


def _phases(found: dict[str, dict]) -> "Figure":
    """Rows are models and columns coordinates; a single coordinate has its four portraits in a square."""
    n = len(next(iter(found.values()))["coordinates"])
    figure, axes = panels(2, 2, height=2.7) if n == 1 else panels(len(found), n, width=3.0 * n + 1.2, height=2.1)
    grid = axes.reshape(len(found), n)
    letters = iter("abcdefghijklmnop")
    for row, (model, result) in zip(grid, found.items(), strict=True):
        truth, training, predicted = result["arrays"]["0.truth"], result["training"][0], _chosen(result)
        for i, one in enumerate(row):
            name = result["coordinates"][i]
            one.plot(truth[:, i], truth[:, n + i], color=TRUTH, linewidth=2.6)
            in_two_parts(one, predicted[:, i], predicted[:, n + i], training, COLOURS[model])
            around(one, truth[:, i], axis="x", room=0.25)
            around(one, truth[:, n + i], room=0.25)
            one.set_title(f"({next(letters)}) {MODELS[model]}", fontsize=9, loc="left")
            if one in axes[-1]:
                one.set_xlabel(quantity(name, result["units"]), fontsize=9)
            if one in axes[:, 0] or n > 1:
                one.set_ylabel(quantity(f"d_{name}", result["units"]), fontsize=9)
    return figure


def _complete(result: dict[str, Any], model: str) -> "Figure":
    """The coordinates that follow from the independent one, and their velocities: four columns of four."""
    names, n = result["columns"], len(result["columns"]) // 2
    dependent = [i for i in range(n) if names[i] not in result["coordinates"]]
    shown_columns = dependent + [n + i for i in dependent]
    arrays, training = result["arrays"], result["training"][0] // THIN
    ts, truth, predicted = (arrays[key][::THIN] for key in ("0.ts", "complete.truth", "complete.predicted"))
    figure, axes = panels(len(shown_columns) // 4, 4, width=12.0, height=1.9, sharex=True)
    for one, i in zip(axes.flat, shown_columns, strict=True):
        shade_test(one, ts, training)
        one.plot(ts, truth[:, i], color=TRUTH, linewidth=2.2)
        in_two_parts(one, ts, predicted[:, i], training, COLOURS[model])
        around(one, truth[:, i], room=0.3)
        one.set_ylabel(quantity(names[i], result["units"]), fontsize=9)
    for one in axes[-1]:
        one.set_xlabel("t (s)", fontsize=9)
    return figure
