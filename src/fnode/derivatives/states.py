"""States that were not measured, estimated from the samples that were."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from fnode.derivatives.labels import Labels, label
from fnode.errors import InputError
from fnode.trajectory import State, Trajectory


def positions_only(trajectory: Trajectory) -> bool:
    """Whether no velocity of a trajectory was measured."""
    v = np.asarray(trajectory.x.v)
    return v.size > 0 and bool(np.isnan(v).all())


def label_of(trajectory: Trajectory, method: str) -> Labels:
    """The labels of one trajectory, from positions alone where nothing else was measured."""
    columns = trajectory.columns
    return label(
        np.asarray(trajectory.ts),
        np.asarray(trajectory.x.q),
        None if columns.first_order or positions_only(trajectory) else np.asarray(trajectory.x.v),
        method,
        angles=[column.angle for column in columns.coordinates],
        first_order=columns.first_order,
    )


def estimated(trajectory: Trajectory, labels: Labels | None = None) -> Trajectory:
    """The trajectory with every state known: what was not measured is what the smoother sees there.

    From positions alone, the velocities are the slope of the smoothed positions, and both are taken from that one
    curve. `labels` of the same samples save drawing it again, where their method smooths.
    """
    q, v = np.asarray(trajectory.x.q), np.asarray(trajectory.x.v)
    if np.all(np.isfinite(q)) and np.all(np.isfinite(v)):
        return trajectory
    if labels is None or labels.q is None or (labels.v is None and v.size):
        labels = label_of(trajectory, "auto")
    assert labels.q is not None  # `auto` smooths
    if positions_only(trajectory):
        assert labels.v is not None
        q, v = labels.q.value, labels.v.value
    else:
        q = np.where(np.isnan(q), labels.q.value, q)
        v = v if labels.v is None else np.where(np.isnan(v), labels.v.value, v)
    unknown = np.isnan(np.concatenate([q, v], axis=1)).any(axis=1)
    if unknown.any():
        k = int(np.argmax(unknown))
        raise InputError(
            f"no state can be estimated at t = {trajectory.ts[k]:g}: the gap around it is too long or at an end; "
            "choose gaps='split' or give more samples"
        )
    return dataclasses.replace(trajectory, x=State(jnp.asarray(q), jnp.asarray(v)))
