"""How good labels are, and what they do to a field that is trained on them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fnode import derivatives
from fnode.derivatives import DERIVATIVES
from fnode.errors import InputError
from fnode.learn import run
from fnode.metrics import mse
from fnode.preparation import prepare, resolved
from fnode.systems import SYSTEMS, noisy, recordings
from fnode.trajectory import Trajectory

DIAGNOSTICS = ("error_relative", "eta_prime", "eta_z")


def label_errors(system: str, noise: float, source: str, draw: int) -> dict[str, Any]:
    """Relative error and diagnostics of every channel by every method; None where a method does not apply."""
    part = training_part(system)
    assert part.a is not None
    observed, truth = noisy(part, noise, jax.random.key(draw)), np.asarray(part.a)
    ts, q, v = (np.asarray(values) for values in (observed.ts, observed.x.q, observed.x.v))
    found: dict[str, Any] = {}
    for method in DERIVATIVES:
        try:
            if source == "velocities":  # positions are kept from the method: the velocities are its only signal
                labels = derivatives.label(ts, v, None, method, first_order=True)
            else:
                labels = derivatives.label(ts, q, v if source == "both" else None, method)
        except InputError:
            found[method] = None
            continue
        error = np.sqrt(np.mean((labels.rate.value - truth) ** 2, axis=0)) / np.std(truth, axis=0)
        z = None if labels.rate.sd is None else (labels.rate.value - truth) / np.maximum(labels.rate.sd, 1e-300)
        found[method] = {
            "error": error.tolist(),
            "z": None if z is None else np.sqrt(np.mean(z**2, axis=0)).tolist(),
            **{field: [getattr(d, field) for d in labels.diagnostics] for field in DIAGNOSTICS},
        }
    return {"methods": found}


@functools.cache
def training_part(system: str) -> Trajectory:
    """The clean training part of a system's experiment."""
    recording = recordings(SYSTEMS[system](), key=jax.random.key(0))[0]
    return recording.truth[: recording.training]


def training_effect(system: str, noise: float, draw: int, recipe: str, **settings: Any) -> dict[str, float]:
    """A network trained on noisy samples: errors of labels, of the trained field, and of its rollout."""
    given = {"system": system, "seed": draw, "data": {"noise": noise}, **settings}
    config = resolved(given, recipe, system)
    prepared = prepare(config)
    result = run(config, prepared)
    recording = prepared[0].recordings[0]
    part = recording.truth[: recording.training]
    assert part.a is not None
    learned = jax.vmap(result.model.member())(part.ts, part.x).v
    rollout = result.trained[0].predictions[0][0]
    return {
        "label_rmse": float(np.sqrt(np.mean((prepared[0].labels[0].rate.value - part.a) ** 2))),
        "acceleration_mse": float(jnp.mean((learned - part.a) ** 2)),
        "rollout_mse": float(mse(rollout, recording.truth.x)),
    }
