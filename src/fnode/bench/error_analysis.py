"""The paper's error analysis: how much of it comes from labels, from the learned field and from the integrator."""

import numpy as np

from fnode.analysis.error_decomposition import slope, step_counts
from fnode.bench.drawing import PALETTE, panels
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading

DURATION, SHORTEST, LONGEST, COUNT = 2.0, 5e-4, 1e-2, 15
STEPS = step_counts(DURATION, SHORTEST, LONGEST, COUNT)
QUICK_STEPS, QUICK_EPOCHS = STEPS[:1], 2
RECIPES = ("paper", "auto")
LABELS = ("exact", "differentiated")
EXPECTED = {
    "boundary, first order": 3,
    "boundary, second order": 5,
    "interior": 4,
    "overall, first-order ends": 3,
    "overall, second-order ends": 4,
    "RK4": 8,
}
PUBLISHED = {"boundary, first order": "3", "interior": "4", "RK4": "8"}


class ErrorAnalysis(AbstractExperiment):
    """Fifteen step sizes over 2 s of the damped oscillator, against its exact motion."""

    name = "error_analysis"
    title = "Error decomposition on the single mass-spring-damper"
    paper = "Fig. 5, Fig. 6"

    def cells(self, seeds, quick):
        fields = [
            Cell(
                "field_error",
                {"recipe": recipe, "labels": labels, "steps": steps, **_budget(recipe, quick)},
                steps / 300,
            )
            for recipe in RECIPES
            for labels in LABELS
            for steps in (QUICK_STEPS if quick else STEPS)
        ]
        return [Cell("label_and_solver_errors", {"steps": STEPS}, 2.0), *fields]

    def present(self, results):
        return [_slopes(results), _verdict(results), _table(results)]

    def figures(self, results):
        return [_accelerations(results), _integrator(results)]


def _budget(recipe: str, quick: bool) -> dict[str, int]:
    return {"epochs": QUICK_EPOCHS} if quick and recipe == "paper" else {}


def _classical(results) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Step sizes, and the errors that need no training."""
    result = results[0][1]
    return DURATION / np.array(result["steps"]), {name: np.array(values) for name, values in result["errors"].items()}


def _fields(results, recipe: str, labels: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Step sizes, errors of learned fields, and errors of the labels that the recipe makes by differentiation."""
    found = [
        (DURATION / cell.inputs["steps"], result["field"], result["labels"])
        for cell, result in results[1:]
        if (cell.inputs["recipe"], cell.inputs["labels"]) == (recipe, labels)
    ]
    return tuple(np.array(found).T)  # pyright: ignore


def _slopes(results) -> Heading:
    sizes, errors = _classical(results)
    rows = []
    for name, expected in EXPECTED.items():
        found = slope(sizes, errors[name])
        ends = f"{errors[name][0]:.1e} .. {errors[name][-1]:.1e}"
        rows.append((name, str(expected), PUBLISHED.get(name, "-"), f"{found:.3f}", f"{found - expected:+.3f}", ends))
    text = (
        "Slopes of log error over log step size: 15 step sizes from 0.01 s to 0.0005 s in even ratios, 2 s, exact "
        "motion. Errors of accelerations are sums over their samples divided by the number of all samples, so that "
        "ends and interior add up to the overall error; two ends of order q therefore scale with 2 q + 1. RK4 is the "
        "error of the whole trajectory with the true field."
    )
    columns = ("mean squared error of", "theory", "published", "slope", "difference", "largest .. smallest step")
    return Heading("Slopes", text, columns, tuple(rows))


def _verdict(results) -> Heading:
    rows = []
    for recipe in RECIPES:
        _, network, labels = _fields(results, recipe, "exact")
        _, both, _ = _fields(results, recipe, "differentiated")
        ranges = (f"{errors.min():.1e} .. {errors.max():.1e}" for errors in (network, labels, both))
        rows.append((recipe, *ranges, _dominant(network > labels), _dominant(network > both - network)))
    text = (
        "The field trained on exact labels has the error of the network alone; labels by differentiation have their "
        "own; the field trained on those has both. Smallest and largest over the step sizes, one seed each. Two "
        "questions: is the network's error larger than that of the labels, and is it larger than what their use adds "
        "to the field's error? Each verdict is that of most step sizes. Two first-order ends make most of the error "
        "of the labels of `paper` and little of the field's. The paper's section finds that the network dominates, "
        "its conclusions say the opposite."
    )
    columns = (
        "recipe",
        "network alone",
        "labels alone",
        "both",
        "larger: network or labels",
        "dominates the field",
    )
    return Heading("Verdict: which error dominates", text, columns, tuple(rows))


def _dominant(network: np.ndarray) -> str:
    """What is larger at most step sizes, and at how many."""
    count, total = int(network.sum()), len(network)
    return f"network, at {count} of {total}" if 2 * count > total else f"differentiation, at {total - count} of {total}"


def _table(results) -> Heading:
    sizes, errors = _classical(results)
    curves = {(r, k): dict(zip(*_fields(results, r, k)[:2], strict=True)) for r in RECIPES for k in LABELS}
    rows = []
    for i, size in enumerate(sizes):
        learned = [curve.get(size) for curve in curves.values()]
        fields = ("-" if value is None else f"{value:.1e}" for value in learned)
        rows.append((f"{size:.3e}", *(f"{errors[name][i]:.2e}" for name in EXPECTED), *fields))
    columns = ("dt (s)", *EXPECTED, *(f"{recipe}, {labels} labels" for recipe, labels in curves))
    return Heading("All errors", "Mean squared errors behind the figures.", columns, tuple(rows))


def _accelerations(results) -> Drawing:
    sizes, errors = _classical(results)
    figure, axes = panels(1, 1, width=8.6, height=5.2)
    one = axes[0, 0]
    names = [name for name in EXPECTED if name != "RK4"]
    for name, colour, mark in zip(names, PALETTE, "osd^v", strict=False):
        wide = 4.5 if name.startswith("overall") else 1.4
        alpha = 0.35 if name.startswith("overall") else 1.0
        text = f"{name}: slope {slope(sizes, errors[name]):.2f}"
        one.plot(sizes, errors[name], color=colour, marker=mark, markersize=4, linewidth=wide, alpha=alpha, label=text)
    looks = {"paper": "#000000", "auto": "#56B4E9"}
    for recipe in RECIPES:
        for labels in LABELS:
            steps, learned, _ = _fields(results, recipe, labels)
            colour, dash = looks[recipe], "-" if labels == "exact" else ":"
            text = f"field by {recipe}, {labels} labels"
            one.plot(steps, learned, color=colour, linestyle=dash, marker="x", markersize=4, linewidth=1.2, label=text)
    one.set_xscale("log")
    one.set_yscale("log")
    one.set_xlabel(r"$\Delta t$ (s)")
    one.set_ylabel(r"mean squared error of the acceleration (m²/s⁴)")
    figure.legend(*one.get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    caption = (
        "Fig. 5: error of the acceleration against the step size: differences at the ends and inside, their sum, and "
        "fields trained on exact and on differentiated labels."
    )
    return Drawing("fig05_acceleration_errors", caption, figure)


def _integrator(results) -> Drawing:
    sizes, errors = _classical(results)
    figure, axes = panels(1, 1, width=6.0, height=3.6)
    one = axes[0, 0]
    found = slope(sizes, errors["RK4"])
    one.plot(sizes, errors["RK4"], color=PALETTE[0], marker="o", markersize=4, label=f"RK4: slope {found:.2f}")
    guide = errors["RK4"][0] * (sizes / sizes[0]) ** 8
    one.plot(sizes, guide, color="#7f7f7f", linestyle="--", linewidth=1, label="slope 8")
    one.set_xscale("log")
    one.set_yscale("log")
    one.set_xlabel(r"$\Delta t$ (s)")
    one.set_ylabel(r"mean squared error of $x$, $\dot{x}$ (m², m²/s²)")
    one.legend(fontsize=8)
    caption = "Fig. 6: error of the whole trajectory (metres and metres per second alike) by RK4 with the true field."
    return Drawing("fig06_rk4_error", caption, figure)
