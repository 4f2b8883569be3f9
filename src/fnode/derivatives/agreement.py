"""Whether measured velocities are the slopes of the measured positions.

Velocities that a filter made of the positions come late and with noise that is not white. A field learned from such
pairs has a damping that the mechanism has not: `v(t - delay)` beside `q(t)` looks like a force along the velocity.
"""

import dataclasses

import numpy as np

from fnode.derivatives._registry import derivative_named
from fnode.derivatives.labels import Track, check, follow, unwrapped

LARGEST_RATIO = 4.0  # of a disagreement to what the errors of both estimates explain ...
LARGEST_SHARE = 2e-3  # ... if it is also more than this share of the velocity's spread


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How far a velocity is from the slope of its position.

    `share` is the difference relative to the velocity's spread, `ratio` the same relative to the deviations of both
    estimates, `delay` the time by which the velocity comes late.
    """

    share: float
    ratio: float
    delay: float

    @property
    def doubtful(self) -> bool:
        """Whether noise does not explain the difference."""
        return self.ratio > LARGEST_RATIO and self.share > LARGEST_SHARE


def agreement(ts: np.ndarray, q: np.ndarray, v: np.ndarray, *, angle: bool, bridge: float = 20.0) -> Agreement | None:
    """How one coordinate and its velocity go together; None where there is too little of either.

    >>> ts = np.linspace(0.0, 10.0, 1001)
    >>> late = agreement(ts, np.sin(ts), np.cos(ts - 0.02), angle=False)
    >>> late.doubtful, round(late.delay, 3)
    (True, 0.02)
    """
    check(ts, q[:, None], v[:, None], [angle])
    way = derivative_named("auto")
    speed = follow(ts, v, way, "auto", 1, bridge)
    place = follow(ts, unwrapped(q) if angle else q, way, "auto", 2, bridge)
    return _compared(speed, place)


def _compared(speed: Track, place: Track) -> Agreement | None:
    (measured, measured_sd), (slope, slope_sd), (rate, _) = (
        speed.derivatives[0],
        place.derivatives[1],
        place.derivatives[2],
    )
    both = np.isfinite(measured) & np.isfinite(slope)
    spread = float(np.std(measured[both])) if np.any(both) else 0.0
    if spread == 0.0:
        return None
    off = measured[both] - slope[both]
    size = float(np.sqrt(np.mean(off**2)))
    explained = float(np.sqrt(np.mean(measured_sd[both] ** 2 + slope_sd[both] ** 2)))
    bend = rate[both] - np.mean(rate[both])
    delay = -float(off @ bend) / max(float(bend @ bend), 1e-300)
    return Agreement(size / spread, size / max(explained, 1e-300), delay)
