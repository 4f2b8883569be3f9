"""The figures of a run: the content of `scores.json`."""

import dataclasses
import importlib.metadata
import math
from collections.abc import Iterable, Sequence

import equinox as eqx
import jax
import numpy as np

from fnode.constraints import Holonomic
from fnode.errors import InputError
from fnode.io import gaps_of
from fnode.learn import Run, Trained, completed
from fnode.methods import method_named
from fnode.metrics import energy_drift, flat, mse, rmse
from fnode.model import Model
from fnode.recording import Recording
from fnode.selection import Verdict, describe
from fnode.systems import AbstractFirstOrder, AbstractMechanical
from fnode.trajectory import State, Trajectory

PARTS = ("full", "train", "test")


def scores(run: Run) -> dict:
    """Every field of `scores.json`; what does not apply is `None`."""
    entries = [_entry(run, part, seed) for part, seed in run.members]
    chosen, seed = run.chosen
    constraint, mse_all = _constraints(run)
    trajectories = [_trajectory(run, chosen, seed, k) for k in range(len(chosen.recordings))]
    return {
        "system": run.config.system or ", ".join(run.config.files),
        "model": run.config.model,
        "recipe": run.config.recipe,
        "structure": chosen.seeds[seed].network.structure if method_named(run.config.model).build is None else None,
        "version": importlib.metadata.version("fnode"),
        "deterministic": all(learned.deterministic for part in run.trained for learned in part.seeds),
        "chosen": run.model.chosen,
        "seeds": entries,
        "median": {
            "mse": {part: _median(entry["mse"][part] for entry in entries) for part in PARTS},
            "mse_free": None
            if entries[0]["mse_free"] is None
            else {part: _median(entry["mse_free"][part] for entry in entries) for part in PARTS},
            "rmse": {
                part: {
                    name: _median(entry["rmse"][part][name] for entry in entries) for name in entries[0]["rmse"][part]
                }
                for part in ("train", "test")
                if entries[0]["rmse"][part] is not None
            },
            "seconds": {name: _median(entry["seconds"][name] for entry in entries) for name in entries[0]["seconds"]},
            "final_error_relative": _median(entry["final_error_relative"] for entry in trajectories),
        },
        "spread": {"mse": {part: _spread(entry["mse"][part] for entry in entries) for part in PARTS}},
        "trajectories": trajectories,
        "constraint": constraint,
        "mse_all": mse_all,
        "energy_drift": _median(entry["energy_drift"] for entry in entries),
        "labels": _labels(run, chosen) if method_named(run.config.model).labels and chosen.labels else None,
        "data": _data(run, chosen, seed),
        "control": None,
        "ranking": [
            {**_verdict(verdict), "chosen": verdict is chosen.seeds[seed].verdict}
            for verdict in chosen.seeds[seed].ranking
        ],
    }


def _verdict(verdict: Verdict) -> dict:
    return {
        "candidate": describe(verdict),
        "worst": _finite(verdict.worst),
        "errors": [_finite(error) for error in verdict.errors],
        "seconds": verdict.seconds,
    }


def control_scores(model: Model, system: str, figures: dict) -> dict:
    """`scores.json` of closed loops: the scores of the model itself are in its own run folder."""
    fields = ("seeds", "median", "spread", "trajectories", "constraint", "mse_all", "energy_drift", "labels", "data")
    return {
        "system": system,
        "model": model.config.model,
        "recipe": model.config.recipe,
        "structure": None,
        "version": importlib.metadata.version("fnode"),
        "deterministic": None,
        "chosen": model.chosen,
        **dict.fromkeys(fields),
        "control": figures,
        "ranking": None,
    }


def score_parts(predicted: State, recording: Recording, skipped: int = 0) -> dict[str, float | None]:
    """Mean squared errors over the whole recording, its training part and the rest, without the samples skipped."""
    k = recording.training
    ranges = {"full": slice(skipped, None), "train": slice(skipped, k), "test": slice(max(k, skipped), None)}
    values = {}
    for part, samples in ranges.items():
        there = jax.tree.map(lambda leaf, samples=samples: leaf[samples], (predicted, recording.truth.x))
        values[part] = float(mse(*there)) if there[1].q.shape[0] else None
    return values


def _entry(run: Run, part: Trained, seed: int) -> dict:
    """The figures of one member: medians over recordings where there are several."""
    predictions, learned = part.predictions[seed], part.seeds[seed]
    errors = [score_parts(x, recording) for x, recording in zip(predictions, part.recordings, strict=True)]
    return {
        "seed": run.config.seed + seed,
        "start": part.start,
        "mse": {name: _median(error[name] for error in errors) for name in PARTS},
        "mse_free": _free_running(run, part, predictions),
        "rmse": {name: _columns(run, part, predictions, name) for name in ("train", "test")},
        "energy_drift": _drift(run, part, predictions),
        "seconds": {
            "compile": learned.seconds_compile,
            "train": learned.seconds_train,
            "total": part.seconds_data + learned.seconds_compile + learned.seconds_train + learned.seconds_rollout,
        },
    }


def _free_running(run: Run, part: Trained, predictions: Sequence[State]) -> dict[str, float | int | None] | None:
    """Errors without the samples a model was given to begin with, where it was given more than one."""
    needs = run.model.forecaster(0).needs
    if needs <= 1:
        return None
    errors = [score_parts(x, recording, needs) for x, recording in zip(predictions, part.recordings, strict=True)]
    return {"warm_up": needs, **{name: _median(error[name] for error in errors) for name in PARTS}}


def _columns(run: Run, part: Trained, predictions: Sequence[State], which: str) -> dict[str, float | None] | None:
    """Root mean square error of each column over the training or the test part: medians over recordings."""
    values = []
    for predicted, recording in zip(predictions, part.recordings, strict=True):
        k = recording.training
        samples = slice(k) if which == "train" else slice(k, None)
        there = jax.tree.map(lambda leaf, samples=samples: leaf[samples], (predicted, recording.truth.x))
        if there[1].q.shape[0]:
            values.append(np.asarray(rmse(*there)))
    if not values:
        return None
    return {column.name: _median(v[i] for v in values) for i, column in enumerate(run.model.columns.state)}


def _drift(run: Run, part: Trained, predictions: Sequence[State]) -> float | None:
    system = run.system
    if not isinstance(system, AbstractMechanical) or not system.conservative:
        return None
    drifts = []
    for predicted, recording in zip(predictions, part.recordings, strict=True):
        truth = recording.truth.x
        kinetic = jax.vmap(system.kinetic)(truth.q, truth.v)
        drifts.append(float(energy_drift(jax.vmap(system.energy)(predicted), kinetic)))
    return _median(drifts)


def _trajectory(run: Run, part: Trained, seed: int, k: int) -> dict:
    recording, predicted = part.recordings[k], part.predictions[seed][k]
    truth = recording.truth
    parameters = run.model.columns.parameters
    first = len(run.model.columns.inputs)
    place, error = _place(run), np.asarray(flat(predicted)[-1] - flat(truth.x)[-1])
    steps = np.diff(np.asarray(truth.x.q)[:, place], axis=0)
    distance = float(np.sum(np.linalg.norm(steps, axis=1))) if place else None
    with np.errstate(over="ignore"):  # a rollout that left for good
        final_error = _finite(np.linalg.norm(error[place] if place else error))
    return {
        "name": recording.name,
        "split": recording.split,
        "parameters": None
        if truth.u is None or not parameters
        else {column.name: float(truth.u[0, first + i]) for i, column in enumerate(parameters)},
        "mse": {name: _finite(value) for name, value in score_parts(predicted, recording).items()},
        "final_error": final_error,
        "distance": distance,
        "final_error_relative": final_error / distance if final_error is not None and distance else None,
    }


def _place(run: Run) -> list[int]:
    """The coordinates that say where a system is, if it has a place: its final error is then a distance."""
    names = run.system.place if isinstance(run.system, AbstractFirstOrder) else ()
    return [k for k, column in enumerate(run.model.columns.coordinates) if column.name in names]


def _constraints(run: Run) -> tuple[dict[str, float | None] | None, float | None]:
    """The largest residual of the constraints at each level, worst over members, and the error of all coordinates."""
    system = run.system
    if system is None or system.constraints is None:
        return None, None
    worst, errors = np.zeros(3), []
    for part in run.trained:
        truths = [run.complete(recording.truth) for recording in part.recordings]
        for seed in range(len(part.seeds)):
            found = []
            for number, truth in enumerate(truths):
                try:
                    motion = completed(run, part, number, seed)
                except InputError:  # the rollout left every pose the mechanism has
                    worst, found = np.full(3, np.inf), [*found, math.inf]
                    continue
                worst = np.maximum(worst, residuals(system.constraints, motion))
                found.append(float(mse(motion.x, truth.x)))
            errors.append(_median(found))
    levels = ("position", "velocity", "acceleration")
    return {level: _finite(value) for level, value in zip(levels, worst, strict=True)}, _median(errors)


def residuals(constraints: Holonomic, motion: Trajectory) -> np.ndarray:
    """The largest absolute residual of the constraints over a motion: position, velocity, acceleration.

    Not a number for accelerations that are not known.
    """
    if motion.a is None:
        unknown = jax.numpy.full_like(motion.x.v, math.nan)
        motion = dataclasses.replace(motion, a=unknown)
    levels = eqx.filter_jit(eqx.filter_vmap(constraints.residuals))(motion.x.q, motion.x.v, motion.a)
    return np.array([float(np.max(np.abs(level))) for level in levels])


def _labels(run: Run, part: Trained) -> dict[str, dict]:
    """What is known of the labels of each coordinate: medians over the training parts."""
    columns = run.model.columns
    names = [column.name for column in (columns.coordinates if columns.first_order else columns.accelerations)]
    found = {}
    for i, name in enumerate(names):
        diagnoses = [labels.diagnostics[i] for labels in part.labels]
        found[name] = {
            "method": "+".join(sorted({diagnosis.method for diagnosis in diagnoses})),
            "noise": _median(diagnosis.noise_relative for diagnosis in diagnoses),
            "error": _median(diagnosis.error_relative for diagnosis in diagnoses),
            "eta_prime": _median(diagnosis.eta_prime for diagnosis in diagnoses),
            "eta_z": _median(diagnosis.eta_z for diagnosis in diagnoses),
        }
    return found


def _data(run: Run, part: Trained, seed: int) -> dict:
    """What the training data lack, and what that costs: medians over the training parts.

    `noise` and `label_error` are relative to the spreads of signals and labels, `window_error` (over windows that the
    model was not fitted to) to that of the motion; `constraint` tells how well files obey theirs.
    """
    observed = [recording.observed for recording in part.recordings if recording.observed is not None]
    skipped = sum(_skipped(np.asarray(each.ts)) for each in observed)
    samples = sum(map(len, observed)) - part.missing
    labels = _labels(run, part) if part.labels else {}
    noise, error = ({name: entry[kind] for name, entry in labels.items()} for kind in ("noise", "error"))
    verdict = part.seeds[seed].verdict
    misfit = run.model.linkage.misfit if run.model.linkage is not None else None
    return {
        "samples": samples,
        "missing": (skipped + part.missing) / max(1, samples + skipped + part.missing),
        "noise": noise if noise and None not in noise.values() else None,
        "label_error": error if error and None not in error.values() else None,
        "window_error": None if verdict is None else _finite(math.sqrt(verdict.worst)),
        "constraint": None if misfit is None else dataclasses.asdict(misfit),
        "start_error": _start_error(run, part, seed),
    }


def _start_error(run: Run, part: Trained, seed: int) -> dict[str, float | None] | None:
    """How far the first noisy sample and the estimated start are from the true one, in units of each column's spread:
    the root mean square over columns, the median over recordings. Only built-in systems know the true one."""
    errors = []
    for recording, begin in zip(part.recordings, part.starts[seed], strict=True):
        if begin is None or recording.observed is None or run.config.system is None:
            continue
        true = recording.truth.states
        spread = np.maximum(np.std(np.asarray(true), axis=0), 1e-12)
        found = np.stack([flat(recording.observed.start), flat(begin)])
        errors.append(np.sqrt(np.mean(((found - np.asarray(true[0])) / spread) ** 2, axis=1)))
    if not errors:
        return None
    first, estimated = np.median(errors, axis=0)
    return {"first_sample": _finite(first), "estimated": _finite(estimated)}


def _skipped(ts: np.ndarray) -> int:
    """How many samples a grid lacks: a step about as long as two or more of those around it stands for missing ones.

    Times that follow no grid lack nothing.
    """
    steps = np.diff(ts) / gaps_of(ts)[0]
    even = len(steps) > 0 and np.median(np.abs(steps - 1)) < 0.1
    return int(np.sum(np.round(steps) - 1, where=steps > 1.75)) if even else 0


def _finite(value) -> float | None:
    """JSON has no infinity: a rollout that left for good has no figure."""
    return None if value is None or not math.isfinite(value) else float(value)


def _median(values: Iterable) -> float | None:
    """The median, where a rollout that left for good counts as infinitely bad."""
    present = [math.inf if not math.isfinite(value) else float(value) for value in values if value is not None]
    return _finite(np.median(present)) if present else None


def _spread(values: Iterable) -> list[float | None] | None:
    present = [math.inf if not math.isfinite(value) else float(value) for value in values if value is not None]
    return [_finite(min(present)), _finite(max(present))] if present else None
