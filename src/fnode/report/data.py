"""The tables of a run's data: how it was sampled, what range it covers, and how well its labels are known."""

import numpy as np

from fnode.analysis.quality import Sampling, sampling
from fnode.io.cleaning import Record
from fnode.learn import Run
from fnode.recording import Recording
from fnode.trajectory import Trajectory


def samplings(run: Run) -> list[tuple[Recording, Sampling]]:
    """How each recording was sampled."""
    return [(recording, _sampling(recording)) for recording in run.chosen[0].recordings]


def _sampling(recording: Recording) -> Sampling:
    ts, x = np.asarray(recording.truth.ts), recording.truth.x
    return sampling(Record(recording.name, np.arange(len(ts)), ts, np.asarray(x.q), np.asarray(x.v), None, None))


def ranges(run: Run) -> list[dict]:
    """The least and the largest value of every column, in what was trained on and in what was held out."""
    columns, recordings = run.model.columns, run.chosen[0].recordings
    seen = [recording.observed for recording in recordings if recording.observed is not None]
    held = [
        recording.truth[recording.training :] for recording in recordings if recording.training < len(recording.truth)
    ]
    roles = {
        "coordinate": columns.coordinates,
        "velocity": columns.velocities,
        "input": columns.inputs,
        "parameter": columns.parameters,
    }
    named = [(role, column) for role, group in roles.items() for column in group]
    extremes = {"training": _extremes(seen), "held_out": _extremes(held)}
    return [
        {
            "column": column,
            "role": role,
            **{part: None if found is None else found[:, i] for part, found in extremes.items()},
        }
        for i, (role, column) in enumerate(named)
    ]


def _extremes(parts: list[Trajectory]) -> np.ndarray | None:
    """The least and the largest value of each column, one below the other."""
    if not parts:
        return None
    values = np.concatenate(
        [np.concatenate([part.states, *([] if part.u is None else [part.u])], axis=1) for part in parts]
    )
    return np.stack([values.min(axis=0), values.max(axis=0)])


def labels_of(run: Run) -> list[dict]:
    """The samples that differentiation left aside, filled in or could not label, for each label."""
    part, columns = run.chosen[0], run.model.columns
    return [
        {
            "column": column,
            "source": "+".join(sorted({labels.diagnostics[i].source for labels in part.labels})),
            "outliers": sum(len(labels.diagnostics[i].outliers) for labels in part.labels),
            "bridged": sum(labels.diagnostics[i].bridged for labels in part.labels),
            "unlabelled": sum(labels.diagnostics[i].unlabelled for labels in part.labels),
        }
        for i, column in enumerate(columns.accelerations or columns.coordinates)
    ]
