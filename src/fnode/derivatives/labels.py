"""From one measured trajectory to the labels that a field is fitted to, with their own error bars."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from threadpoolctl import threadpool_limits

from fnode.derivatives._base import LARGEST, AbstractDerivative, AbstractSmoother, check_times
from fnode.derivatives._registry import derivative_named
from fnode.derivatives.diagnostics import Diagnosis, eta_prime, eta_z
from fnode.errors import InputError


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A quantity at every sample: its value, the standard deviation of its error where known, and where it is known.

    Where `known` is false there was nothing to estimate from, and value and deviation are nan.
    """

    value: Float[np.ndarray, "samples channels"]
    sd: Float[np.ndarray, "samples channels"] | None
    known: Bool[np.ndarray, "samples channels"]


@dataclasses.dataclass(frozen=True)
class Labels:
    """What a field is fitted to: the rate of the highest state of each coordinate, and smoothed states.

    `rate` holds second time derivatives, or first ones for first-order systems. `q` and `v` are the states as the
    method sees them without noise, where it offers that; from positions alone, `v` is their first derivative.
    """

    rate: Estimate
    q: Estimate | None
    v: Estimate | None
    diagnostics: tuple[Diagnosis, ...]


@dataclasses.dataclass(frozen=True)
class Track:
    """One channel along its record: derivatives by order, each a value and its deviation, nan where not known."""

    derivatives: dict[int, tuple[np.ndarray, np.ndarray]]
    name: str
    noise: float | None
    freedom: float | None
    outliers: tuple[int, ...]
    stretches: int


def label(
    ts: np.ndarray,
    q: np.ndarray,
    v: np.ndarray | None = None,
    method: str = "auto",
    *,
    angles: Sequence[bool] = (),
    first_order: bool = False,
    bridge: float = 20.0,
) -> Labels:
    """Labels of one trajectory; map it over trajectories of any lengths, never join them first.

    With velocities the labels are their first derivatives, pooled with the second derivatives of the positions where
    the method knows the error of both; without velocities, the second derivatives of the positions. Coordinates marked
    in `angles` are unwrapped first. Missing samples (nan) and gaps in time are bridged up to `bridge` median time
    steps; longer ones cut the record into stretches.

    >>> ts = np.linspace(0.0, 2.0, 101)
    >>> labels = label(ts, np.sin(ts)[:, None], np.cos(ts)[:, None])
    >>> bool(np.allclose(labels.rate.value[:, 0], -np.sin(ts), atol=1e-7))
    True
    """
    way = derivative_named(method)
    ts, q = np.asarray(ts, float), np.asarray(q, float)
    v = None if v is None or first_order else np.asarray(v, float)
    check(ts, q, v, angles)
    order = 2 if v is None and not first_order else 1
    rates, positions, velocities, diagnostics = [], [], [], []
    for i, angle in enumerate(angles or [False] * q.shape[1]):
        place = unwrapped(q[:, i]) if angle else q[:, i]
        source, z = ("positions", place) if v is None else ("velocities", v[:, i])
        track = follow(ts, z, way, method, order, bridge)
        rate, speed = track.derivatives[order], track.derivatives.get(order - 1)
        where = speed if first_order else track.derivatives.get(0)
        if v is not None and isinstance(way, AbstractSmoother):
            other = follow(ts, place, way, method, 2, bridge)
            where, speed, rate = other.derivatives[0], *pooled(track, other)
            if np.any(np.isfinite(other.derivatives[2][0])):
                source = "both"
        if not np.any(np.isfinite(rate[0])):
            raise InputError(
                f"coordinate {i}: no stretch of at least {way.minimum} samples without a gap of more than {bridge:g} "
                f"time steps, but '{method}' needs one: give more samples, or a larger `bridge`"
            )
        rates.append(rate)
        positions.append(where)
        velocities.append(speed)
        diagnostics.append(diagnosed(ts, z, track, source, order, rate))
    smooth = isinstance(way, AbstractSmoother)
    return Labels(
        estimate(rates),
        estimate(positions) if smooth else None,
        estimate(velocities) if not first_order and (smooth or v is None) else None,
        tuple(diagnostics),
    )


def check(ts: np.ndarray, q: np.ndarray, v: np.ndarray | None, angles: Sequence[bool]) -> None:
    """An error unless times increase, every time has a row of values, and the values can be squared."""
    check_times(ts)
    if len(ts) < 3:
        raise InputError(f"got {len(ts)} samples, but derivatives need at least 3: give more samples")
    for values in (q,) if v is None else (q, v):
        if values.ndim != 2 or len(values) != len(ts) or values.shape != q.shape:
            raise InputError(f"got values of shape {values.shape} for {len(ts)} times: need one row for each time")
        if np.any(np.abs(values) > LARGEST):
            raise InputError(f"got values beyond {LARGEST:g}: choose larger units")
    if len(angles) not in (0, q.shape[1]):
        raise InputError(f"got {len(angles)} marks of angles for {q.shape[1]} coordinates: give one for each")


def unwrapped(y: np.ndarray) -> np.ndarray:
    """An angle without its jumps of a whole turn; missing samples stay missing."""
    there = np.isfinite(y)
    turned = y.copy()
    turned[there] = np.unwrap(y[there])
    return turned


def stretches(ts: np.ndarray, there: np.ndarray, bridge: float) -> list[np.ndarray]:
    """The samples that are there, cut where more than `bridge` median time steps pass without any."""
    rows = np.flatnonzero(there)
    cuts = np.flatnonzero(np.diff(ts[rows]) > bridge * np.median(np.diff(ts))) + 1
    return np.split(rows, cuts)


@threadpool_limits.wrap(limits=1)  # small matrices: threads cost more than they bring
def follow(ts: np.ndarray, z: np.ndarray, way: AbstractDerivative, name: str, order: int, bridge: float) -> Track:
    """One channel, stretch by stretch; stretches with too few samples are left out."""
    derivatives = {k: (np.full(len(ts), np.nan), np.full(len(ts), np.nan)) for k in range(order + 1)}
    curves, outliers = [], []
    parts = [rows for rows in stretches(ts, np.isfinite(z), bridge) if len(rows) >= way.minimum]
    for rows in parts:
        if isinstance(way, AbstractSmoother):
            curve = way.draw(ts[rows], z[rows], order)
            inside = slice(rows[0], rows[-1] + 1)
            for k, (value, sd) in derivatives.items():
                value[inside], sd[inside] = curve.at(ts[inside], k)
            curves.append(curve)
            outliers.extend(int(rows[i]) for i in curve.rejected)
        else:
            for k in range(1, order + 1):
                found = way(ts[rows], z[rows, None], order=k)
                value, sd = derivatives[k]
                value[rows] = found.value[:, 0]
                if found.variance is not None:
                    sd[rows] = np.sqrt(found.variance[:, 0])
    names = sorted({curve.name for curve in curves}) or [name]
    noise = max((float(curve.noise) for curve in curves), default=None)
    freedom = sum(curve.freedom for curve in curves) if curves else None
    return Track(derivatives, "+".join(names), noise, freedom, tuple(outliers), len(parts))


def pooled(track: Track, other: Track) -> list[tuple[np.ndarray, np.ndarray]]:
    """Velocity and acceleration from a track of velocities and one of positions, weighted by their variances."""
    results = []
    for k in (0, 1):
        (a, a_sd), (b, b_sd) = track.derivatives[k], other.derivatives[k + 1]
        largest = np.fmax(np.fmax(a_sd, b_sd), 1e-150)
        a_share, b_share = (b_sd / largest) ** 2, (a_sd / largest) ** 2
        total = np.fmax(a_share + b_share, 1e-300)
        value = np.where(total > 1e-300, (a_share * a + b_share * b) / total, a)
        sd = a_sd * b_sd / (largest * np.sqrt(total))
        value = np.where(np.isnan(a), b, np.where(np.isnan(b), a, value))
        results.append((value, np.where(np.isnan(a), b_sd, np.where(np.isnan(b), a_sd, sd))))
    return results


def diagnosed(ts, z, track: Track, source: str, order: int, rate: tuple[np.ndarray, np.ndarray]) -> Diagnosis:
    """What is known of one channel of labels."""
    there, known = np.isfinite(z), np.isfinite(rate[0])
    spread, motion = (float(np.std(x)) if len(x) else 0.0 for x in (z[there], rate[0][known]))
    error = float(np.sqrt(np.mean(rate[1][known] ** 2))) if np.all(np.isfinite(rate[1][known])) else None
    slope = track.derivatives[1][0]
    summed = there & np.isfinite(slope)
    return Diagnosis(
        method=track.name,
        source=source,
        noise=track.noise,
        noise_relative=relative(track.noise, spread),
        freedom=track.freedom,
        error=error,
        error_relative=relative(error, motion),
        eta_prime=eta_prime(ts[there], z[there], order),
        eta_z=eta_z(ts[summed], z[summed], slope[summed]) if np.any(summed) else None,
        outliers=track.outliers,
        bridged=int(np.sum(known & ~there)),
        unlabelled=int(np.sum(~known)),
        stretches=track.stretches,
    )


def relative(part: float | None, whole: float) -> float | None:
    """A share of a spread, where there are both."""
    return None if part is None or whole == 0 else part / whole


def estimate(channels: list[tuple[np.ndarray, np.ndarray]]) -> Estimate:
    """Channels side by side; without deviations if any method gave none."""
    value, sd = (np.stack(part, axis=1) for part in zip(*channels, strict=True))
    known = np.isfinite(value)
    return Estimate(value, sd if np.all(np.isfinite(sd[known])) else None, known)
