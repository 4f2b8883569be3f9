"""Where the model leaves the data it was fitted to."""

import dataclasses
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy.spatial import KDTree

from fnode.learn import Run
from fnode.recording import Recording
from fnode.report.errors import first_beyond, over_recordings, time_axis
from fnode.report.figures import TRUE, line, logarithmic, styled
from fnode.trajectory import State, Trajectory

MOST_STATES = 4000  # of the training parts that are looked at
NEAREST = 0.01  # of the reach: what is closer is drawn as being this close
STRETCHES = 10  # of the training parts whose distance from the rest is the yardstick


@dataclasses.dataclass(frozen=True)
class Support:
    """The distance of every rollout from the nearest training state, as a share of the `reach` of the training data.

    States, with inputs and parameters, are compared in units of their spread; an angle that the model knows as one
    counts by its sine and cosine. The reach is how far a stretch of the training data is from all the rest, at most.
    """

    recordings: tuple[Recording, ...]
    distances: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, run: Run) -> "Support | None":
        """None where no training data was kept, as of a stream."""
        part, seed = run.chosen
        network = part.seeds[seed].network
        turning = network.angles == "sincos" or network.structure == "library"
        turns = np.array([turning and column.angle for column in run.model.columns.coordinates])
        seen = [_places(r.observed.x, r.observed, turns) for r in part.recordings if r.observed is not None]
        if not seen or run.config.stream.design:
            return None
        step = -(-sum(map(len, seen)) // MOST_STATES)
        seen = [each[::step] for each in seen]
        every = np.concatenate(seen)
        spread = np.std(every, axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        stretches = [stretch / unit for stretch in _stretches(seen)]
        reach = max(_farthest(stretches, k) for k in range(len(stretches))) if len(stretches) > 1 else 0.0
        if reach == 0:
            return None
        tree = KDTree(every / unit)
        found = []
        for recording, predicted in zip(part.recordings, part.predictions[seed], strict=True):
            places = _places(predicted, recording.truth, turns) / unit
            there = np.all(np.isfinite(places), axis=1)
            away = np.full(len(places), np.inf)
            away[there] = tree.query(places[there])[0] / reach
            found.append(away)
        return cls(part.recordings, tuple(found))

    def sentence(self) -> str:
        """When the rollouts first leave."""
        left = [
            (t, recording.name)
            for recording, away in zip(self.recordings, self.distances, strict=True)
            if (t := first_beyond(recording.truth.ts, away, 1.0)) is not None
        ]
        count = len(self.recordings)
        if not left:
            return "The rollout never leaves the data." if count == 1 else f"None of {count} rollouts leaves the data."
        t, name = min(left)
        if count == 1:
            return f"The rollout first leaves the data at t = {t:.3g} s."
        return f"{len(left)} of {count} rollouts leave the data, the first at t = {t:.3g} s (trajectory {name})."


def leaving(support: Support) -> go.Figure:
    """The distance over time; above the dotted line the model is on its own."""
    figure = make_subplots(1, 1)
    place: Any = {"row": 1, "col": 1}
    distances = [np.maximum(away, NEAREST) for away in support.distances]
    ts = over_recordings(figure, support.recordings, distances, place, legend=True)
    figure.add_trace(line(ts, np.ones(2), "reach of the training data", TRUE, dash="dot"), **place)
    logarithmic(figure, "distance / reach")
    figure.update_xaxes(title_text=time_axis(support.recordings))
    return styled(figure, height=360)


def _places(x: State, motion: Trajectory, turns: np.ndarray) -> np.ndarray:
    """What the field sees of states: coordinates, velocities, inputs and parameters side by side."""
    q = np.asarray(x.q)
    known = [q[:, ~turns], np.sin(q[:, turns]), np.cos(q[:, turns]), np.asarray(x.v)]
    return np.concatenate(known if motion.u is None else [*known, np.asarray(motion.u)], axis=1)


def _stretches(seen: list[np.ndarray]) -> list[np.ndarray]:
    """The training data in about equal pieces: whole recordings, or stretches where there are few of them."""
    each = -(-STRETCHES // len(seen))
    pieces = [piece for states in seen for piece in np.array_split(states, each) if len(piece)]
    together = np.array_split(np.arange(len(pieces)), min(STRETCHES, len(pieces)))
    return [np.concatenate([pieces[k] for k in group]) for group in together]


def _farthest(stretches: list[np.ndarray], k: int) -> float:
    """How far one stretch is from the others, at most."""
    others = np.concatenate([stretch for j, stretch in enumerate(stretches) if j != k])
    return float(np.max(KDTree(others).query(stretches[k])[0]))
