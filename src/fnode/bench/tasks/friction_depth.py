"""Accelerations of the slider-crank with friction by networks of several depths."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fnode.learn import UNWATCHED, Watch, run
from fnode.preparation import labelled, prepare, resolved


def acceleration_errors(depth: int, seed: int, epochs: int, watch: Watch = UNWATCHED) -> dict[str, Any]:
    """One network on the first 5 s of the motion: its error against its labels and against the true accelerations."""
    settings = {
        "system": "slider_crank_friction",
        "seed": seed,
        "parameters": {"mu": 0.6},
        "data": {"steps": 500, "train": 500},
        "network": {"depth": depth},
        "training": {"epochs": epochs, "batch": 16, "learning_rate": 1e-3, "decay": 0.99},
    }
    config = resolved(settings, "paper", "slider_crank_friction")
    prepared = prepare(config)
    model = run(config, prepared, watch).model
    truth = prepared[0].recordings[0].truth
    samples = labelled(prepared[0].recordings, prepared[0].labels, config.labels)
    learned = jax.vmap(model.member())(truth.ts, truth.x, truth.u).v
    assert truth.a is not None
    return {
        "labels": float(jnp.mean((learned - samples.rate) ** 2)),
        "truth": float(jnp.mean((learned - truth.a) ** 2)),
        "arrays": {"ts": np.asarray(truth.ts), "truth": np.asarray(truth.a), "learned": np.asarray(learned)},
    }
