"""Coordinates that are bound to one another: the relations that their samples obey.

Joints between rigid bodies in a plane bind places to sines and cosines of angles linearly, so that a singular value
decomposition of samples finds them.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from fnode.derivatives import measured_noise

MOST_SAMPLES = 2000
ENOUGH = 5  # samples for each term of a relation: any few of them obey some relation
POSES = 25  # at which relations are asked which coordinates they fix
LEAST_NOISE = 1e-9  # relative to the spread: rounding, and what a file's digits leave
HOLDS = 2.0  # deviations of noise within which a relation holds
SHORTEST = 12  # samples of a trajectory that is looked at
BINDS = 30.0  # deviations by which it would miss if a coordinate went through its spread alone
MOST_CHOICES = 5000  # of coordinates that tell the others
NOISIEST = 0.02  # relative to the spread: beyond, free coordinates may seem bound


@dataclasses.dataclass(frozen=True)
class Bound:
    """How many coordinates move, with how many degrees of freedom, and which of them tell the others, where that is
    known."""

    moving: int
    freedom: int
    telling: tuple[int, ...]

    def line(self, names: Sequence[str]) -> str:
        """What to tell whoever gave the data."""
        told = (
            f"{self.moving} coordinates move with {self.freedom} degree{'s' * (self.freedom != 1)} of freedom in these "
            "data: where joints bind them, give the constraints (mechanism=FILE.toml)"
        )
        alone = ",".join(names[i] for i in self.telling)
        return f"{told}, or learn coordinates={alone} alone" if alone else told


def bound(tracks: Sequence[tuple[np.ndarray, np.ndarray]], angles: Sequence[bool]) -> Bound | None:
    """Whether coordinates are bound, from times and coordinates of trajectories; None where each moves freely, or
    noise and few samples leave it open."""
    tracks = [(ts[known], q[known]) for ts, q in tracks if (known := np.isfinite(q).all(axis=1)).sum() >= SHORTEST]
    if not tracks:
        return None
    noise, spread = np.array([_noise_and_spread(tracks, i, angle) for i, angle in enumerate(angles)]).T
    moving = np.flatnonzero(spread > 0)
    if len(moving) < 2 or np.any(noise > NOISIEST * spread):
        return None
    noise, spread, turning = noise[moving], spread[moving], np.asarray(angles)[moving]
    q = np.concatenate([q for _, q in tracks])[:, moving]
    q = q[:: -(-len(q) // MOST_SAMPLES)]
    values, _, owner = _features(q, turning)
    if len(q) < ENOUGH * len(owner):
        return None
    unit = np.maximum(noise, LEAST_NOISE * spread)[owner]
    _, sizes, directions = np.linalg.svd((values - values.mean(axis=0)) / unit, full_matrices=False)
    relations = directions[sizes <= HOLDS * np.sqrt(len(q))]
    poses = q[np.linspace(0, len(q) - 1, POSES).astype(int)]
    jacobians = relations @ (_features(poses, turning)[1] / unit[:, None] * spread)
    rank = int(np.median(np.sum(np.linalg.svd(jacobians, compute_uv=False) > BINDS, axis=1)))
    if not 0 < rank < len(moving):
        return None
    freedom = len(moving) - rank
    return Bound(len(moving), freedom, tuple(int(moving[i]) for i in _telling(jacobians, freedom)))


def _telling(jacobians: np.ndarray, count: int) -> tuple[int, ...]:
    """The coordinates that fix the others best, at the pose where they do it worst; none of too many choices.

    Relations found in data are more than coordinates they fix, and no few of them hold everywhere, as constraints that
    are given do: all of them count at every pose.
    """
    n = jacobians.shape[2]
    if math.comb(n, count) > MOST_CHOICES:
        return ()

    def worst(free: tuple[int, ...]) -> float:
        others = [i for i in range(n) if i not in free]
        return float(np.linalg.svd(jacobians[:, :, others], compute_uv=False)[:, -1].min())

    return max(itertools.combinations(range(n), count), key=worst)


def _features(q: np.ndarray, turning: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sines and cosines of all coordinates, for an angle need not be declared as such, and places; their slopes in the
    coordinates, and which coordinate each belongs to."""
    n, places = q.shape[1], np.flatnonzero(~turning)
    owner = np.concatenate([np.arange(n), np.arange(n), places])
    values = np.concatenate([np.sin(q), np.cos(q), q[:, places]], axis=1)
    slopes = np.zeros((*values.shape, n))
    slopes[:, np.arange(len(owner)), owner] = np.concatenate(
        [np.cos(q), -np.sin(q), np.ones_like(q[:, places])], axis=1
    )
    return values, slopes, owner


def _noise_and_spread(tracks, i: int, angle: bool) -> tuple[float, float]:
    """Of one coordinate, where it moves most."""
    found = [(0.0, 0.0)]
    for ts, q in tracks:
        y = np.unwrap(q[:, i]) if angle else q[:, i]
        spread = float(np.std(y))
        if spread > 1e-12 * max(1.0, float(np.abs(y).max())):
            noise = measured_noise((ts - ts[0]) / np.ptp(ts), (y - y.mean()) / spread)[0]
            found.append((noise * spread, spread))
    return max(found, key=lambda pair: pair[1])
