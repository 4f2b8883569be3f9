"""Data of built-in systems: exact or from a tight adaptive solver, unless the paper's integrator is asked for."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.errors import InputError, choose
from fnode.field import AbstractAcceleration
from fnode.recording import Recording
from fnode.solvers import SOLVERS, TIGHT, AbstractSolver, rollout, solver_named
from fnode.systems._base import AbstractSystem
from fnode.trajectory import State, Trajectory


def configured(system: type[AbstractSystem], parameters: Mapping[str, float | tuple[float, ...]]) -> AbstractSystem:
    """The system with some of its parameters changed."""
    defaults = {field.name: field.default for field in dataclasses.fields(system)}
    for name, value in parameters.items():
        default: Any = defaults[choose("parameter", name, defaults)]
        if np.shape(0.0 if default is None else default) != np.shape(value):
            raise InputError(f"parameter '{name}' must look like {default}, got {value}")
    return system(**{name: _numbers(value) for name, value in parameters.items()})


def simulate(
    system: AbstractSystem,
    ts: Float[Array, " samples"],
    *,
    start: State,
    control: Callable | None = None,
    solver: AbstractSolver | None = None,
) -> Trajectory:
    """The true motion at `ts`; without a solver the exact solution where there is one, else a tight adaptive solve."""
    return _simulate(system, ts, start, control, solver)


@eqx.filter_jit
def _simulate(system: AbstractSystem, ts, start, control, solver):
    x = None if solver or control else system.exact(start, ts)
    if x is None:
        x = rollout(system, start, ts, control=control, solver=solver or TIGHT)
    u = None if control is None else jax.vmap(control)(ts)
    accelerations = None
    if isinstance(system, AbstractAcceleration):
        accelerations = jax.vmap(system.acceleration, in_axes=(0, 0, None if u is None else 0))(ts, x, u)
    return Trajectory(ts, x, u, accelerations, columns=system.columns)


def recordings(
    system: AbstractSystem,
    *,
    start: Mapping[str, float] | None = None,
    steps: int | None = None,
    train: int | None = None,
    dt: float | None = None,
    data_solver: str | None = None,
    noise: float = 0.0,
    full: bool = False,
    key: PRNGKeyArray,
    moved: int = 0,
) -> tuple[Recording, ...]:
    """The system's experiment as recordings: clean truth, and training parts with noise where asked for.

    With `full` the motion is given by all coordinates, not only the independent ones. `moved` numbers the start: 0 is
    the given one, the others lie 5 % of each column's spread away from it.
    """
    data_solver = data_solver or system.data_solver
    solver = None if data_solver in (None, "exact") else solver_named(data_solver)
    if data_solver == "exact" and system.exact(system.protocol.start, jnp.zeros(1)) is None:
        raise InputError(f"this system has no exact solution: choose data_solver among {', '.join(SOLVERS)}")
    made = []
    for case in system.cases:
        x0 = started(system, start or {}, case.start)
        total, training = lengths(case.train, case.test, steps, train)
        ts = (dt or system.protocol.dt) * jnp.arange(total)
        control = system.control(case.parameters)
        truth = simulate(system, ts, start=x0, control=control, solver=solver)
        if moved:
            spread = jnp.std(truth.states, axis=0)
            shift = 0.05 * spread * jax.random.normal(jax.random.fold_in(key, moved), spread.shape)
            n = x0.q.shape[0]
            there = State(x0.q + shift[:n], x0.v + shift[n:])
            truth = simulate(system, ts, start=there, control=control, solver=solver)
        truth.checked("the simulated motion")
        truth = system.complete(truth) if full else truth
        observed = noisy(truth[:training], noise, jax.random.fold_in(key, len(made) + 1_000_000)) if training else None
        made.append(Recording(case.name, truth, observed, control))
    return tuple(made)


def lengths(train: int, test: int, steps: int | None, wanted: int | None) -> tuple[int, int]:
    """All samples and training samples of a case, when the user may have asked for others."""
    total = steps or train + test
    if wanted and wanted > total:
        raise InputError(f"got train={wanted} training samples out of {total}: choose at most {total}")
    return total, min(wanted or train, total) if train else 0


def started(system: AbstractSystem, values: Mapping[str, float], usual: tuple[float, ...] | None = None) -> State:
    """The usual start, the paper's unless another is given, with some of its columns changed."""
    names = [column.name for column in system.columns.state]
    start = system.protocol.start
    flat = jnp.concatenate([start.q, start.v]) if usual is None else jnp.asarray(usual, float)
    for name, value in values.items():
        flat = flat.at[names.index(choose("state", name, names))].set(value)
    return State(flat[: start.q.shape[0]], flat[start.q.shape[0] :])


def noisy(trajectory: Trajectory, noise: float, key: PRNGKeyArray) -> Trajectory:
    """The trajectory as an imperfect sensor sees it: Gaussian noise, in units of each column's standard deviation."""
    if noise == 0:
        return trajectory
    key_q, key_v = jax.random.split(key)

    def sensed(values, key):
        return values + noise * jnp.std(values, axis=0) * jax.random.normal(key, values.shape)

    x = State(sensed(trajectory.x.q, key_q), sensed(trajectory.x.v, key_v))
    return dataclasses.replace(trajectory, x=x, a=None)


def _numbers(value):
    return tuple(map(float, value)) if isinstance(value, (list, tuple)) else float(value)
