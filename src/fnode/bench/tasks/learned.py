"""One recipe on one system: trained once, for every table and figure that shows it."""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np

from fnode.config import merged
from fnode.errors import InputError
from fnode.learn import UNWATCHED, Run, Watch, completed, one_of, predict_recording, run, window_errors
from fnode.metrics import flat
from fnode.models import is_trainable
from fnode.preparation import prepare, resolved
from fnode.scores import score_parts, scores
from fnode.training import Progress
from fnode.trajectory import Trajectory

GROWTH = 1.25  # training time from one look at the test part to the next, as a factor
KEPT = ("seeds", "chosen", "structure", "deterministic", "constraint", "mse_all", "trajectories")


def learned(
    system: str,
    model: str,
    recipe: str,
    seeds: int,
    settings: dict[str, Any] | None = None,
    track: bool = False,
    watch: Watch = UNWATCHED,
) -> dict[str, Any]:
    """All seeds of a model on a system: scores, rollouts and, with `track`, the error of the test part on the way.

    A training that is tracked begins anew after an interrupt, because its way is part of the result.
    """
    config = resolved(merged({"system": system, "model": model, "seeds": seeds}, settings or {}), recipe, system)
    looks = Looks()
    done = run(config, prepare(config), Watch(report=looks.take) if track else watch)
    found = scores(done)
    part, chosen = done.chosen
    arrays = {}
    for k, recording in enumerate(part.recordings):
        arrays[f"{k}.ts"] = np.asarray(recording.truth.ts)
        arrays[f"{k}.truth"] = np.asarray(recording.truth.states)
        arrays[f"{k}.predicted"] = np.stack([np.asarray(flat(several[k])) for several in part.predictions])
    columns = done.model.columns
    if done.constrained and len(part.recordings) == 1:
        whole = done.complete(part.recordings[0].truth)
        columns = whole.columns
        arrays["complete.truth"] = np.asarray(whole.states)
        arrays["complete.predicted"] = np.asarray(_completed(done, part, chosen, whole).states)
    return {
        **{name: found[name] for name in KEPT},
        "coordinates": [column.name for column in done.model.columns.coordinates],
        "units": {column.name: column.unit for column in (*columns.state, *done.model.columns.state)},
        "columns": [column.name for column in columns.state],
        "training": [recording.training for recording in part.recordings],
        "windows": [error if np.isfinite(error) else None for error in window_errors(done.model, done.trained)],
        "track": looks.errors(done) if track else None,
        "arrays": arrays,
    }


def _completed(done: Run, part, chosen: int, whole: Trajectory) -> Trajectory:
    """All coordinates of the chosen rollout; unknown where it left every pose that the mechanism has."""
    try:
        return completed(done, part, 0, chosen)
    except InputError:
        lost = whole.x.q * np.nan
        return dataclasses.replace(whole, x=dataclasses.replace(whole.x, q=lost, v=lost))


class Looks:
    """Where a training stood, at ever longer intervals."""

    def __init__(self):
        self.taken: list[Progress] = []

    def take(self, start: int, progress: Progress) -> None:
        if len(self.taken) > 1 and progress.seconds < GROWTH * self.taken[-2].seconds:
            self.taken.pop()  # the last one is always kept
        self.taken.append(progress)

    def errors(self, done: Run) -> dict[str, Any]:
        """Seconds of training per seed, epochs, and the error of every seed's test part with its best weights so far.

        Seeds train together: each is charged its share.
        """
        (part,) = done.trained
        found: dict[str, Any] = {"seconds": [], "epochs": [], "mse": []}
        for progress in self.taken:
            members = tuple(
                eqx.combine(one_of(progress.best, k), eqx.partition(seed.field, is_trainable(seed.field))[1])
                for k, seed in enumerate(part.seeds)
            )
            model = dataclasses.replace(done.model, members=members)
            errors = [
                score_parts(predict_recording(model, k, part.recordings[0]), part.recordings[0])["test"]
                for k in range(len(members))
            ]
            found["seconds"].append(float(progress.seconds) / len(members))
            found["epochs"].append(int(progress.epoch))
            found["mse"].append([value if value is not None and np.isfinite(value) else None for value in errors])
        return found
