"""Coordinates that are bound to one another: the relations that their samples obey.

Joints between rigid bodies in a plane bind places to sines and cosines of angles linearly, so that a singular value
decomposition of samples finds them.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from fnode.derivatives import measured_noise

MOST_SAMPLES = 2000
POSES = 25  # at which relations are asked which coordinates they fix
LEAST_NOISE = 1e-9  # relative to the spread: rounding, and what a file's digits leave
HOLDS = 2.0  # deviations of noise within which a relation holds
BINDS = 30.0  # deviations by which it would miss if a coordinate went through its spread alone
NOISIEST = 0.02  # relative to the spread: beyond, free coordinates may seem bound
MOST_CHOICES = 5000


@dataclasses.dataclass(frozen=True)
class Bound:
    """How freely coordinates move: with fewer degrees of freedom than there are, told by those in `free`."""

    moving: int
    free: tuple[int, ...]

    def line(self, names: Sequence[str]) -> str:
        """What to tell whoever gave the data."""
        freedom = f"{len(self.free)} degree{'s' * (len(self.free) != 1)} of freedom"
        alone = ",".join(names[i] for i in self.free)
        return (
            f"{self.moving} coordinates move with {freedom} in these data: where joints bind them, give the "
            f"constraints (mechanism=FILE.toml), or learn coordinates={alone} alone"
        )


def bound(tracks: Sequence[tuple[np.ndarray, np.ndarray]], angles: Sequence[bool]) -> Bound | None:
    """Which coordinates tell all others, from times and coordinates of trajectories; None where each moves freely."""
    tracks = [(ts[known], q[known]) for ts, q in tracks if (known := np.isfinite(q).all(axis=1)).sum() >= 12]
    if not tracks or len(angles) < 2:
        return None
    noise, spread = np.array([_noise_and_spread(tracks, i, angle) for i, angle in enumerate(angles)]).T
    moving = np.flatnonzero(spread > 0)
    if np.any(noise > NOISIEST * spread):
        return None
    every = np.concatenate([q for _, q in tracks])[:, moving]
    every = every[:: -(-len(every) // MOST_SAMPLES)]
    spread = spread[moving]
    values, slopes, owner = _features(every, np.asarray(angles)[moving])
    unit = np.maximum(noise[moving], LEAST_NOISE * spread)[owner]
    centred = (values - values.mean(axis=0)) / unit
    _, sizes, directions = np.linalg.svd(centred, full_matrices=True)
    sizes = np.pad(sizes, (0, len(directions) - len(sizes))) / np.sqrt(len(centred))
    relations = directions[sizes <= HOLDS]
    poses = np.linspace(0, len(every) - 1, POSES).astype(int)
    jacobians = relations @ (slopes[poses] / unit[:, None] * spread)
    strengths = np.linalg.svd(jacobians, compute_uv=False)
    rank = int(np.median(np.sum(strengths > BINDS, axis=1))) if len(relations) else 0
    if rank == 0:
        return None
    return Bound(len(moving), tuple(int(moving[i]) for i in _telling(jacobians, len(moving) - rank)))


def _telling(jacobians: np.ndarray, count: int) -> tuple[int, ...]:
    """The coordinates that fix the others best, at the pose where they do it worst."""
    n = jacobians.shape[2]

    def worst(free: tuple[int, ...]) -> float:
        others = [i for i in range(n) if i not in free]
        return float(np.linalg.svd(jacobians[:, :, others], compute_uv=False)[:, -1].min())

    return max(itertools.islice(itertools.combinations(range(n), count), MOST_CHOICES), key=worst)


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
