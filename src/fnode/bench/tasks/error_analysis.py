"""Errors of labels, learned fields and RK4 on the damped oscillator, at one size of the time step."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fnode.analysis.error_decomposition import acceleration_errors, even_times, integration_error
from fnode.learn import UNWATCHED, Watch, run
from fnode.preparation import exactly_labelled, prepare, resolved
from fnode.systems import MassSpringDamper
from fnode.trajectory import State, Trajectory

SYSTEM = "mass_spring_damper"
DURATION = 2.0


def label_and_solver_errors(steps: list[int]) -> dict[str, Any]:
    """For each number of steps, the errors of differences and of RK4 against the exact motion."""
    system = MassSpringDamper()
    found: dict[str, list[float]] = {}
    for motion in _exact_motions(system, [even_times(DURATION, count) for count in steps]):
        errors = {**acceleration_errors(motion), "RK4": integration_error(system, motion)}
        for name, value in errors.items():
            found.setdefault(name, []).append(value)
    return {"steps": steps, "errors": found}


def _exact_motions(system: MassSpringDamper, times: list[Array]) -> Iterator[Trajectory]:
    """The motion at several sets of times; all of them in one call, because each size would be compiled anew."""

    @jax.jit
    def motion(ts):
        x = system.exact(system.protocol.start, ts)
        return x, jax.vmap(system.acceleration)(ts, x)

    x, a = jax.tree.map(np.asarray, motion(jnp.concatenate(times)))
    ends = np.cumsum([len(ts) for ts in times])
    for ts, end in zip(times, ends, strict=True):
        part = slice(end - len(ts), end)
        yield Trajectory(
            ts, State(jnp.asarray(x.q[part]), jnp.asarray(x.v[part])), a=jnp.asarray(a[part]), columns=system.columns
        )


def field_error(
    recipe: str, labels: str, steps: int, epochs: int | None = None, watch: Watch = UNWATCHED
) -> dict[str, float]:
    """A field trained on `exact` or `differentiated` labels of the whole motion: mean squared errors of the field's
    accelerations and of its labels, on the states it was trained on."""
    data = {"steps": steps + 1, "train": steps + 1, "dt": DURATION / steps}
    training = {} if epochs is None else {"epochs": epochs}
    config = resolved({"system": SYSTEM, "data": data, "training": training}, recipe, SYSTEM)
    prepared = prepare(config)
    truth = prepared[0].recordings[0].truth
    differentiated = np.asarray(prepared[0].labels[0].rate.value)
    if labels == "exact":
        prepared = [exactly_labelled(part) for part in prepared]
    field = run(config, prepared, watch).model.member()
    learned = jax.jit(jax.vmap(field))(truth.ts, truth.x).v
    return {
        "field": float(jnp.mean((learned - truth.a) ** 2)),
        "labels": float(np.mean((differentiated - np.asarray(truth.a)) ** 2)),
    }
