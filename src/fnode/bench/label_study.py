"""How good labels are: every method on the paper's systems, with and without noise, and what it does to a rollout."""

import functools
from collections import defaultdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from fnode import derivatives
from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.derivatives import DERIVATIVES
from fnode.errors import InputError
from fnode.learn import run
from fnode.metrics import mse
from fnode.preparation import prepare, resolved
from fnode.systems import SYSTEMS, noisy, recordings
from fnode.trajectory import Trajectory

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
            Cell({"what": "labels", "system": system, "noise": noise, "source": source, "draw": draw})
            for system in STUDIED
            for noise in NOISES
            for source in SOURCES
            for draw in range(draws if noise else 1)
        ]
        trained = [
            Cell({"what": "training", "system": system, "labels": labels, "draw": draw, "epochs": 20 if quick else 450})
            for system in ("double_pendulum", "cart_pole")
            for labels in TRAINED
            for draw in range(1 if quick else max(seeds, 5))
        ]
        return labels + trained

    def compute(self, cell):
        return (
            label_errors(**_without_what(cell))
            if cell.inputs["what"] == "labels"
            else training_effect(**_without_what(cell))
        )

    def present(self, results):
        labels = [(cell.inputs, result) for cell, result in results if cell.inputs["what"] == "labels"]
        trained = [(cell.inputs, result) for cell, result in results if cell.inputs["what"] == "training"]
        return [*(_accuracy(labels, source) for source in SOURCES), _correlation(labels), _effect(trained)]


def label_errors(system: str, noise: float, source: str, draw: int) -> dict[str, Any]:
    """Relative error and diagnostics of every channel by every method; None where a method does not apply."""
    part = training_part(system)
    assert part.a is not None
    observed, truth = noisy(part, noise, jax.random.key(draw)), np.asarray(part.a)
    ts, q, v = (np.asarray(values) for values in (observed.ts, observed.x.q, observed.x.v))
    found = {}
    for method in DERIVATIVES:
        try:
            if source == "velocities":  # positions are kept from the method: the velocities are its only signal
                labels = derivatives.label(ts, v, None, method, first_order=True)
            else:
                labels = derivatives.label(ts, q, v if source == "both" else None, method)
        except InputError:
            found[method] = None
            continue
        error = np.sqrt(np.mean((labels.rate.value - truth) ** 2, axis=0)) / np.std(truth, axis=0)
        z = None if labels.rate.sd is None else (labels.rate.value - truth) / np.maximum(labels.rate.sd, 1e-300)
        found[method] = {
            "error": error.tolist(),
            "z": None if z is None else np.sqrt(np.mean(z**2, axis=0)).tolist(),
            **{field: [getattr(d, field) for d in labels.diagnostics] for field in DIAGNOSTICS.values()},
        }
    return found


@functools.cache
def training_part(system: str) -> Trajectory:
    """The clean training part of a system's experiment."""
    recording = recordings(SYSTEMS[system](), key=jax.random.key(0))[0]
    return recording.truth[: recording.training]


def training_effect(system: str, labels: str, draw: int, epochs: int) -> dict[str, float]:
    """The paper's network on labels of 1 % noise: errors of labels, of the trained field, and of its rollout."""
    settings = {"system": system, "seed": draw, "data": {"noise": 0.01}, "labels": TRAINED[labels]}
    config = resolved({**settings, "training": {"epochs": epochs}}, "paper", system)
    prepared = prepare(config)
    result = run(config, prepared)
    recording = prepared[0].recordings[0]
    part = recording.truth[: recording.training]
    assert part.a is not None
    learned = jax.vmap(result.model.member())(part.ts, part.x).v
    rollout = result.trained[0].predictions[0][0]
    return {
        "label_rmse": float(np.sqrt(np.mean((prepared[0].labels[0].rate.value - part.a) ** 2))),
        "acceleration_mse": float(jnp.mean((learned - part.a) ** 2)),
        "rollout_mse": float(mse(rollout, recording.truth.x)),
    }


def _without_what(cell: Cell) -> dict[str, Any]:
    return {name: value for name, value in cell.inputs.items() if name != "what"}


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
    by = defaultdict(list)
    for inputs, result in results:
        by[inputs["system"], inputs["labels"]].append(list(result.values()))
    rows = []
    for (system, labels), values in by.items():
        middle, plain = np.median(values, axis=0), np.median(by[system, "difference3"], axis=0)
        ratios = plain / middle
        cells = [f"{m:.2g} ({ratio:.1f}x)" for m, ratio in zip(middle, ratios, strict=True)]
        rows.append((system, labels, *cells))
    text = "The paper's network at 1 % noise: medians over draws, and how many times below those of difference3."
    columns = ("system", "labels", "label RMSE", "acceleration MSE", "rollout MSE")
    return Heading("What labels do to a trained field", text, columns, tuple(rows))
