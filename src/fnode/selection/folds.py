"""What a candidate is fitted to and what it is judged by: the training part, cut apart in several ways."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from fnode.training import Labelled
from fnode.trajectory import State, Trajectory

MANY = 10  # trajectories of which two folds hold out enough
MOST_WINDOWS = 6  # rollouts by which a candidate is judged, per fold
MOST_STEPS = 1000  # of such a rollout: where samples are closer, some are passed over


@dataclasses.dataclass(frozen=True)
class Part:
    """One training trajectory: what was measured, its states without noise where known, its labelled samples."""

    measured: Trajectory
    smooth: Trajectory
    control: Callable | None
    samples: Labelled


class Trial(eqx.Module):
    """A window to be predicted: from its first state, compared with all of them."""

    ts: Float[Array, " samples"]
    x: State
    control: Callable | None


@dataclasses.dataclass(frozen=True)
class Fold:
    """Stretches of time that a candidate may not be fitted to, by number of part, and the windows that judge it."""

    held: tuple[tuple[int, float, float], ...]
    trials: tuple[Trial, ...]

    def allows(self, number: int, first: float, last: float) -> bool:
        """Whether a stretch of a part is free of what is held out."""
        return not any(part == number and first <= until and last >= since for part, since, until in self.held)


EVERYTHING = Fold((), ())


def folds(parts: Sequence[Part]) -> Iterator[Fold]:
    """Whole trajectories are held out where there are several, stretches of each otherwise."""
    if len(parts) >= 4:
        for first in (3, 1, 2) if len(parts) < MANY else (3, 1):  # few windows each: one more fold
            held = list(range(len(parts)))[first::5]
            judges = held[:: math.ceil(len(held) / MOST_WINDOWS)]
            length = min(len(parts[number].smooth) for number in judges)
            trials = tuple(_trial(parts[number], 0, length) for number in judges)
            yield Fold(tuple((number, -math.inf, math.inf) for number in held), trials)
        return
    shortest = min(len(part.smooth) for part in parts)
    held, length = max(2, shortest // 5), max(3, shortest // 2)
    # The end is held out, then a stretch in the middle; rollouts begin before it, all with one length.
    for place, starts in ((0.8, (0.5, 0.0)), (0.4, (0.2,))) if shortest >= 50 else ((0.8, (0.5,)),):
        hidden, trials = [], []
        for number, part in enumerate(parts):
            ts = np.asarray(part.smooth.ts)
            first = min(round(place * len(ts)), len(ts) - held)
            hidden.append((number, float(ts[first]), float(ts[first + held - 1])))
            trials.extend(_trial(part, min(round(start * len(ts)), len(ts) - length), length) for start in starts)
        yield Fold(tuple(hidden), tuple(trials))


def _trial(part: Part, first: int, length: int) -> Trial:
    stretch = part.smooth[first : first + length : math.ceil(length / MOST_STEPS)]
    return Trial(stretch.ts, stretch.x, part.control)
