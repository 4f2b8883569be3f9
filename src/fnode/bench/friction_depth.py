"""The paper's depth study: accelerations of the slider-crank with friction by networks of 2 to 6 hidden layers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fnode.bench.experiment import AbstractExperiment, Cell, Heading
from fnode.learn import run
from fnode.preparation import labelled, prepare, resolved

PUBLISHED = {2: 3.70e-2, 3: 1.72e-2, 4: 1.47e-2, 5: 1.44e-2, 6: 1.41e-2}


class FrictionDepth(AbstractExperiment):
    """Friction coefficient 0.6, the first 5 s; errors against the labels, as published, and against the truth."""

    name = "friction_depth"
    title = "Depth of the network and the acceleration of the slider-crank with friction"

    def cells(self, seeds, quick):
        epochs = 5 if quick else 500
        return [Cell({"depth": depth, "seed": seed, "epochs": epochs}) for depth in PUBLISHED for seed in range(seeds)]

    def compute(self, cell):
        return acceleration_errors(**cell.inputs)

    def present(self, results):
        rows = []
        for depth, published in PUBLISHED.items():
            found = [result for cell, result in results if cell.inputs["depth"] == depth]
            columns = []
            for against in ("labels", "truth"):
                values = [result[against] for result in found]
                columns.append(f"{np.median(values):.2e} ({min(values):.1e} .. {max(values):.1e})")
            rows.append((str(depth), f"{published:.2e}", *columns))
        text = (
            "Mean squared error of the acceleration on the training states, median (range) over seeds. The published "
            "figures are against labels of first-order forward differences, on data whose friction is not consistent "
            "with its multiplier; ours is the corrected system with three-point labels."
        )
        headings = ("hidden layers", "published", "against the labels", "against the true acceleration")
        return [Heading("Depth study, mu = 0.6", text, headings, tuple(rows))]


def acceleration_errors(depth: int, seed: int, epochs: int) -> dict[str, Any]:
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
    model = run(config, prepared).model
    truth = prepared[0].recordings[0].truth
    samples = labelled(prepared[0].recordings, prepared[0].labels, config.labels)
    learned = jax.vmap(model.member())(truth.ts, truth.x, truth.u).v
    assert truth.a is not None
    return {
        "labels": float(jnp.mean((learned - samples.rate) ** 2)),
        "truth": float(jnp.mean((learned - truth.a) ** 2)),
    }
