"""Energy over 30 s of the undamped oscillator, by learned fields and by integrators alone."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from fnode.config import merged
from fnode.learn import UNWATCHED, Watch, run
from fnode.metrics import energy_drift, flat, mse
from fnode.models import RolledOut
from fnode.preparation import prepare, resolved
from fnode.solvers import AbstractFixedStep, solver_named
from fnode.systems import MassSpring, recordings
from fnode.trajectory import State

SYSTEM = "mass_spring"


class StaleRK4(AbstractFixedStep):
    """RK4 whose third and fourth stage keep the velocity of the second: a scheme of first order.

    On the oscillator its energy grows by `1 + (omega h)^2 / 12` per step. It is here because the figures that the paper
    prints for RK4 are its figures.
    """

    def step(self, field, t, x, dt, control):
        first = field(t, x, control(t)).v
        late = x.v + dt / 2 * first
        stages = ((x.q + dt / 2 * x.v), (x.q + dt / 2 * late), (x.q + dt * late))
        second, third, fourth = (field(t, State(q, late), control(t)).v for q in stages)
        v = x.v + dt / 6 * (first + 2 * second + 2 * third + fourth)
        return State(x.q + dt / 6 * (x.v + 5 * late), v)


def drifts(
    schemes: list[str],
    recipe: str | None = None,
    settings: dict[str, Any] | None = None,
    seeds: int = 1,
    watch: Watch = UNWATCHED,
) -> dict[str, Any]:
    """One training (none without a recipe: the true field), rolled out by each scheme.

    Gives energy drift and error of every seed, and states and energies of the first.
    """
    system = MassSpring()
    (recording,) = recordings(system, key=jax.random.key(0))
    truth = recording.truth
    kinetic = jax.vmap(system.kinetic)(truth.x.q, truth.x.v)
    fields = (system,) if recipe is None else _learned(recipe, settings or {}, seeds, watch)
    found, arrays = {}, {"ts": np.asarray(truth.ts), "truth": np.asarray(truth.states)}
    for scheme in schemes:
        solver = StaleRK4() if scheme == "stale" else solver_named(scheme)
        motions = [eqx.filter_jit(RolledOut(field, solver).predict)(truth[:1], truth.ts) for field in fields]
        energies = [jax.vmap(system.energy)(x) for x in motions]
        found[scheme] = {
            "drift": [_finite(energy_drift(energy, kinetic)) for energy in energies],
            "mse": [_finite(mse(x, truth.x)) for x in motions],
        }
        arrays |= {f"{scheme}.states": np.asarray(flat(motions[0])), f"{scheme}.energy": np.asarray(energies[0])}
    return {"schemes": found, "arrays": arrays}


def _learned(recipe: str, settings: dict[str, Any], seeds: int, watch: Watch) -> tuple:
    config = resolved(merged({"system": SYSTEM, "seeds": seeds}, settings), recipe, SYSTEM)
    return run(config, prepare(config), watch).model.members


def _finite(value) -> float | None:
    return float(value) if np.isfinite(value) else None
