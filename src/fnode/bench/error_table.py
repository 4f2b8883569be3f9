"""The paper's error table: four models on five systems, on the same data, over seeds."""

import concurrent.futures
from typing import Any

import numpy as np

from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.learn import run
from fnode.preparation import prepare, resolved
from fnode.scores import scores

# Mean squared errors as the paper's table prints them.
PUBLISHED = {
    "mass_spring_damper": {"fnode": 7.6e-5, "mbd_node": 1.4e-3, "lstm": 1.5e-2, "fcnn": 1.6e-1},
    "triple_mass_spring_damper": {"fnode": 6.1e-3, "mbd_node": 6.8e-3, "lstm": 2.5e-1, "fcnn": 9.0e-2},
    "double_pendulum": {"fnode": 1.4e-1, "mbd_node": 2.3e-1, "lstm": 7.6e-1, "fcnn": 1.9},
    "slider_crank": {"fnode": 1.7e-1, "mbd_node": 8.7e-1, "lstm": 1.4, "fcnn": 3.1},
    "cart_pole": {"fnode": 6.7e-4, "mbd_node": 1.1e-3, "lstm": 1.6e-1, "fcnn": 3.5e-1},
}
FIELDS = ("fnode", "mbd_node", "fcnn")
LARGE_BATCH = 32
CORES = 2  # trainings side by side: one seed after the other would leave a core idle
CHAIN = "triple_mass_spring_damper"


class ErrorTable(AbstractExperiment):
    """Recipe `paper` for every model; the LSTM, which takes longest, once as published and over seeds in batches."""

    name = "error_table"
    title = "Errors of four models on five systems"

    def cells(self, seeds, quick):
        epochs = {"epochs": 3} if quick else {}
        cells = []
        for system in PUBLISHED:
            cells.extend(Cell({"system": system, "model": model, "seeds": seeds, **epochs}) for model in FIELDS)
            cells.append(Cell({"system": system, "model": "lstm", "seeds": seeds, "batch": LARGE_BATCH, **epochs}))
            cells.append(Cell({"system": system, "model": "lstm", "seeds": 1, "batch": 1, **epochs}))
        return cells

    def compute(self, cell):
        return errors(**cell.inputs)

    def present(self, results):
        return [_errors(results), _order(results), _masses(results), _seconds(results)]


def errors(system: str, model: str, seeds: int, batch: int | None = None, epochs: int | None = None) -> dict[str, Any]:
    """All seeds of one model on one system: errors of every seed, of every column, and times.

    Seeds do not depend on each other: half of them train on one core and half on another.
    """
    training = {name: value for name, value in {"batch": batch, "epochs": epochs}.items() if value is not None}
    settings = {"system": system, "model": model, "training": training}

    def some(numbers) -> list[dict]:
        config = resolved({**settings, "seed": int(numbers[0]), "seeds": len(numbers)}, "paper", system)
        return scores(run(config, prepare(config)))["seeds"]

    groups = np.array_split(np.arange(seeds), min(CORES, seeds))
    with concurrent.futures.ThreadPoolExecutor(len(groups)) as pool:
        found = list(pool.map(some, groups))
    entries = [entry for group in found for entry in group]
    return {
        "mse": {part: [entry["mse"][part] for entry in entries] for part in ("full", "train", "test")},
        "mse_free": [entry["mse_free"] and entry["mse_free"]["full"] for entry in entries],
        "rmse": [entry["rmse"]["test"] for entry in entries],
        "compile": max(group[0]["seconds"]["compile"] for group in found),
        "train": max(sum(entry["seconds"]["train"] for entry in group) for group in found),
    }


def _label(inputs: dict[str, Any]) -> str:
    return inputs["model"] + (f", batch {inputs['batch']}" if "batch" in inputs else "")


def middle(values) -> float:
    """The median over seeds; a rollout that left for good is infinitely wrong."""
    return float(np.median([np.inf if value is None else value for value in values]))


def _shown(values) -> str:
    found = [np.inf if value is None else value for value in values]
    if len(found) == 1:
        return f"{found[0]:.1e}"
    return f"{np.median(found):.1e} ({min(found):.0e} .. {max(found):.0e})"


def _errors(results) -> Heading:
    rows = []
    for cell, result in results:
        inputs, mse = cell.inputs, result["mse"]
        published = PUBLISHED[inputs["system"]][inputs["model"]]
        free = [value for value in result["mse_free"] if value is not None]
        row = (f"{published:.1e}", *(_shown(mse[part]) for part in ("full", "train", "test")))
        rows.append((inputs["system"], _label(inputs), str(inputs["seeds"]), *row, _shown(free) if free else "-"))
    text = (
        "Mean squared error of the rollout, median (range) over seeds, beside the published figure, which covers "
        "train and test; all models learn from the same training part. An LSTM is given its first window of the "
        "truth: 'without warm-up' leaves that out."
    )
    columns = ("system", "model", "seeds", "published", "all", "training part", "test part", "all, without warm-up")
    return Heading("Errors", text, columns, tuple(rows))


def _order(results) -> Heading:
    """Who is best, by the data."""
    rows = []
    for system, published in PUBLISHED.items():
        found = {
            _label(cell.inputs): middle(result["mse"]["full"])
            for cell, result in results
            if cell.inputs["system"] == system and cell.inputs.get("batch") != 1
        }
        ours, theirs = (" < ".join(sorted(figures, key=figures.__getitem__)) for figures in (found, published))
        rows.append((system, ours, theirs))
    text = "Models from the smallest to the largest median error, as the data give it and as published."
    return Heading("Order of merit", text, ("system", "here", "published"), tuple(rows))


def _masses(results) -> Heading:
    rows = []
    for cell, result in results:
        if cell.inputs["system"] != CHAIN:
            continue
        values = [
            middle([seed[name] for seed in result["rmse"]]) for name in ("x1", "x2", "x3", "d_x1", "d_x2", "d_x3")
        ]
        rows.append((_label(cell.inputs), *(f"{value:.1e}" for value in values)))
    text = (
        "Root mean square error of each mass on the test part of the chain of three (100, 10 and 1 kg), medians over "
        "seeds. The paper says that MBD-NODE neglects the slow first mass, whose small accelerations count little in a "
        "loss on states."
    )
    names = ("x1 (m)", "x2 (m)", "x3 (m)", "d_x1 (m/s)", "d_x2 (m/s)", "d_x3 (m/s)")
    return Heading("Mass by mass", text, ("model", *names), tuple(rows))


def _seconds(results) -> Heading:
    rows = [
        (cell.inputs["system"], _label(cell.inputs), str(cell.inputs["seeds"]), f"{result['compile']:.1f}",
         f"{result['train']:.1f}")
        for cell, result in results
    ]  # fmt: skip
    alone = sum(result["compile"] + result["train"] for cell, result in results if cell.inputs["model"] != "lstm")
    text = f"Seconds of all seeds together. Without the LSTM: {alone / 60:.1f} minutes in all."
    return Heading("Time", text, ("system", "model", "seeds", "compile", "train"), tuple(rows))
