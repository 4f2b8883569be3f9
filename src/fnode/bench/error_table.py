"""The paper's error table: four models on five systems, on the same data, over seeds."""

from fnode.bench.experiment import AbstractExperiment, Heading, middle, shown
from fnode.bench.published import ERRORS
from fnode.bench.trained import CHAIN, MODELS, SYSTEMS, as_published, label, over_seeds, trained

PARTS = ("full", "train", "test")


class ErrorTable(AbstractExperiment):
    """Recipe `paper` for every model; the LSTM, which takes longest, once as published and over seeds in batches."""

    name = "error_table"
    title = "Errors of four models on five systems"
    paper = "Table 13"
    partial = True

    def cells(self, seeds, quick):
        cells = [cell for system in SYSTEMS for model in MODELS for cell in trained(system, model, seeds, quick)]
        return cells if quick else cells + [as_published(system) for system in SYSTEMS]

    def present(self, results):
        results = over_seeds(results)
        return [_errors(results), _order(results), _masses(results)]


def _errors(results) -> Heading:
    rows = []
    for cell, result in results:
        system, model, entries = cell.inputs["system"], cell.inputs["model"], result["seeds"]
        errors = [shown([entry["mse"][part] for entry in entries], ".1e") for part in PARTS]
        free = [entry["mse_free"]["full"] for entry in entries if entry["mse_free"]]
        published = f"{ERRORS[system][model]:.1e}"
        rows.append((system, label(cell), str(len(entries)), published, *errors, shown(free, ".1e")))
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
    for system, published in ERRORS.items():
        found = {
            MODELS[cell.inputs["model"]]: middle([entry["mse"]["full"] for entry in result["seeds"]])
            for cell, result in reversed(results)  # of two LSTMs the one over seeds counts, which comes first
            if cell.inputs["system"] == system
        }
        theirs = {MODELS[model]: value for model, value in published.items() if MODELS[model] in found}
        rows.append((system, *(" < ".join(sorted(errors, key=errors.__getitem__)) for errors in (found, theirs))))
    text = "Models from the smallest to the largest median error, as the data give it and as published."
    return Heading("Order of merit", text, ("system", "here", "published"), tuple(rows))


def _masses(results) -> Heading:
    names = ("x1", "x2", "x3", "d_x1", "d_x2", "d_x3")
    rows = []
    for cell, result in results:
        if cell.inputs["system"] == CHAIN:
            values = [middle([entry["rmse"]["test"][name] for entry in result["seeds"]]) for name in names]
            rows.append((label(cell), *(f"{value:.1e}" for value in values)))
    text = (
        "Root mean square error of each mass on the test part of the chain of three (100, 10 and 1 kg), medians over "
        "seeds. The paper says that MBD-NODE neglects the slow first mass, whose small accelerations count little in "
        "a loss on states."
    )
    units = ("x1 (m)", "x2 (m)", "x3 (m)", "d_x1 (m/s)", "d_x2 (m/s)", "d_x3 (m/s)")
    return Heading("Mass by mass", text, ("model", *units), tuple(rows))
