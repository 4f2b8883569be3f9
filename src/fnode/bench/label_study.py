"""How good labels are: every method on the paper's systems, with and without noise, and what it does to a rollout."""

from collections import defaultdict

import numpy as np
import scipy.stats

from fnode.bench.experiment import AbstractExperiment, Cell, Heading
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
            Cell("training_effect", {"system": system, "labels": settings, "draw": draw, "epochs": 2 if quick else 450})
            for system in (("cart_pole",) if quick else ("double_pendulum", "cart_pole"))
            for settings in list(TRAINED.values())[: 2 if quick else None]
            for draw in range(1 if quick else max(seeds, 5))
        ]
        return labels + trained

    def present(self, results):
        labels = [(cell.inputs, result["methods"]) for cell, result in results if cell.task == "label_errors"]
        trained = [(cell.inputs, result) for cell, result in results if cell.task == "training_effect"]
        return [*(_accuracy(labels, source) for source in SOURCES), _correlation(labels), _effect(trained)]


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


def _effect(results) -> Heading:
    names = {str(settings): name for name, settings in TRAINED.items()}
    by = defaultdict(list)
    for inputs, result in results:
        values = [result[name] for name in ("label_rmse", "acceleration_mse", "rollout_mse")]
        by[inputs["system"], names[str(inputs["labels"])]].append(values)
    rows = []
    for (system, labels), values in by.items():
        middle, plain = np.median(values, axis=0), np.median(by[system, "difference3"], axis=0)
        ratios = plain / middle
        cells = [f"{m:.2g} ({ratio:.1f}x)" for m, ratio in zip(middle, ratios, strict=True)]
        rows.append((system, labels, *cells))
    text = "The paper's network at 1 % noise: medians over draws, and how many times below those of difference3."
    columns = ("system", "labels", "label RMSE", "acceleration MSE", "rollout MSE")
    return Heading("What labels do to a trained field", text, columns, tuple(rows))
