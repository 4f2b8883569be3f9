"""How good labels are: every method on the paper's systems, with and without noise, and what it does to a rollout."""

from collections import defaultdict

import numpy as np
import scipy.stats

from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.config import merged
from fnode.derivatives import DERIVATIVES

STUDIED = ("mass_spring_damper", "triple_mass_spring_damper", "double_pendulum", "cart_pole")
NOISES = (0.0, 0.001, 0.01, 0.05)
SOURCES = ("velocities", "positions", "both")
TRAINED = {
    "difference3": {"labels": "difference3"},
    "auto": {"labels": "auto"},
    "auto, measured states": {"labels": "auto", "denoise": False},
    "auto, weighted": {"labels": "auto", "weighted": True},
}
TRAININGS = {
    "paper": {"recipe": "paper"},
    "network": {"recipe": "network", "training": {"structures": ["mlp"]}},
}
NOISY, CLEAN = 0.01, "auto, no noise"
MORE = [CLEAN, *list(TRAINED)[2:]]  # what is tried with the paper's training alone
DIAGNOSTICS = {"predicted error": "error_relative", "eta'": "eta_prime", "eta_z": "eta_z"}


class LabelStudy(AbstractExperiment):
    """Labels against the truth, and fields trained on them."""

    name = "label_study"
    title = "Labels: every method, system, noise and source"

    def cells(self, seeds, quick):
        draws = 1 if quick else max(seeds, 3)
        labels = [
            Cell("label_errors", {"system": system, "noise": noise, "source": source, "draw": draw}, 0.5)
            for system in (STUDIED[:1] if quick else STUDIED)
            for noise in (NOISES[::2] if quick else NOISES)
            for source in SOURCES
            for draw in range(draws if noise else 1)
        ]
        trained = [
            training_cell(system, name, labels, draw, quick)
            for system in (("cart_pole",) if quick else ("double_pendulum", "cart_pole"))
            for name in list(TRAININGS)[: 1 if quick else None]
            for labels in ["difference3", "auto"] + ([] if quick else [CLEAN] if name == "network" else MORE)
            for draw in range(1 if quick or labels == CLEAN else max(seeds, 5))
        ]
        return labels + trained

    def present(self, results):
        labels = [(cell.inputs, result["methods"]) for cell, result in results if cell.task == "label_errors"]
        trained = [(cell.inputs, result) for cell, result in results if cell.task == "training_effect"]
        accuracy = [_accuracy(labels, source) for source in SOURCES]
        return [*accuracy, _correlation(labels), _calibration(labels), _effect(trained)]


def training_cell(system: str, training: str, labels: str, draw: int, quick: bool) -> Cell:
    """One network trained one way on one kind of labels."""
    inputs = {
        "system": system,
        "noise": 0.0 if labels == CLEAN else NOISY,
        "draw": draw,
        **merged(TRAININGS[training], {"labels": TRAINED["auto" if labels == CLEAN else labels]}),
    }
    return Cell("training_effect", merged(inputs, {"training": {"epochs": 2}} if quick else {}), 2.0)


def _accuracy(results, source: str) -> Heading:
    """Geometric means over systems, channels and draws."""
    errors = defaultdict(list)
    for inputs, result in results:
        for method, found in result.items():
            if inputs["source"] == source and found:
                errors[method, inputs["noise"]].extend(found["error"])
    rows = [
        (method, *(f"{np.exp(np.mean(np.log(errors[method, n]))):.2g}" if errors[method, n] else "-" for n in NOISES))
        for method in DERIVATIVES
    ]
    text = f"Error of accelerations from {source}, relative to their spread; geometric mean over channels and draws."
    columns = ("method", *(f"{100 * noise:g} % noise" for noise in NOISES))
    return Heading(f"Labels from {source}", text, columns, tuple(rows))


def _correlation(results) -> Heading:
    """Does a diagnostic know how wrong the labels are?"""
    rows = []
    for method in ("auto", "smoothing_spline", "gp", "difference3"):
        known = [(result[method], i) for inputs, result in results if inputs["noise"] and result.get(method)
                 for i in range(len(result[method]["error"]))]  # fmt: skip
        error = [found["error"][i] for found, i in known]
        row = [method]
        for field in DIAGNOSTICS.values():
            values = [found[field][i] for found, i in known]
            told = bool(values) and all(value is not None for value in values)
            row.append(f"{scipy.stats.spearmanr(values, error)[0]:.2f}" if told else "-")
        zs = [found["z"][i] for found, i in known if found["z"] is not None]
        rows.append((*row, f"{np.median(zs):.2f}" if zs else "-"))
    text = (
        "Spearman correlation with the true relative error over all noisy cases, and the median over channels of the "
        "root mean square of error over predicted deviation (1 is perfect)."
    )
    return Heading("What the diagnostics know", text, ("method", *DIAGNOSTICS, "rms z"), tuple(rows))


def _calibration(results) -> Heading:
    """Are predicted deviations as large as errors?"""
    rows = []
    for source in SOURCES:
        row = [source]
        for noise in NOISES[1:]:
            zs = [
                result["auto"]["z"]
                for inputs, result in results
                if (inputs["source"], inputs["noise"]) == (source, noise)
            ]
            row.append(f"{np.median(np.concatenate(zs)):.2f}" if zs else "-")
        rows.append(tuple(row))
    text = "The same of `auto` alone: median over channels of the root mean square of error over predicted deviation."
    return Heading(
        "How honest deviations are", text, ("from", *(f"{100 * n:g} % noise" for n in NOISES[1:])), tuple(rows)
    )


def _effect(results) -> Heading:
    """Medians over draws beside those of the paper's labels, under the same network and training."""
    by = defaultdict(list)
    for inputs, result in results:
        labels = next(name for name, value in TRAINED.items() if value == inputs["labels"])
        labels = labels if inputs["noise"] else CLEAN
        values = [result[name] for name in ("label_rmse", "acceleration_mse", "rollout_mse")]
        by[inputs["system"], inputs["recipe"], labels].append(np.nan_to_num(values, nan=np.inf))
    rows = []
    for (system, recipe, labels), values in by.items():
        found, plain = (np.median(each, axis=0) for each in (values, by[system, recipe, "difference3"]))
        cells = [f"{one:.2g} ({ratio:.3g}x)" for one, ratio in zip(found, plain / found, strict=True)]
        rows.append((system, recipe, labels, *cells))
    text = (
        "1 % noise, accelerations on the clean states of the training part: medians over draws, and how many times "
        "below those of difference3. `paper` is the paper's network and training, `network` one of 2 x 32 by least "
        "squares, its ridge chosen on held-out windows. Without noise, what remains is the network's own error."
    )
    columns = ("system", "training", "labels", "label RMSE", "acceleration MSE", "rollout MSE")
    return Heading("What labels do to a trained field", text, columns, tuple(rows))
