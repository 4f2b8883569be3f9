"""A controller against a plant that need not be its model."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from fnode.control.linearise import structured
from fnode.control.mpc import MPC
from fnode.control.qp import InfeasibleError
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.metrics import flat
from fnode.solvers import RK4, AbstractSolver
from fnode.trajectory import Columns, State, Trajectory

Plant = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A state and the input held for one interval; out comes the state at its end."""


@dataclasses.dataclass(frozen=True)
class ClosedLoop:
    """What happened: states at all times, the inputs held between them, and the seconds of every step of the
    controller (linearising; updating and solving)."""

    ts: Float[np.ndarray, " steps_1"]
    states: Float[np.ndarray, "steps_1 states"]
    inputs: Float[np.ndarray, "steps inputs"]
    seconds: Float[np.ndarray, "steps 2"]

    def trajectory(self, columns: Columns) -> Trajectory:
        """The motion as a trajectory; the last input is repeated, for there is one state more than there are inputs."""
        n = len(columns.coordinates)
        inputs = np.concatenate([self.inputs, self.inputs[-1:]])
        states = jnp.asarray(self.states)
        return Trajectory(
            jnp.asarray(self.ts), State(states[:, :n], states[:, n:]), jnp.asarray(inputs), columns=columns
        )

    def settling_time(self, wanted: Float[np.ndarray, " states"] | None = None, within: float = 0.01) -> float | None:
        """The time from which the distance to the wanted state stays below a threshold; none if it never does."""
        distance = np.linalg.norm(self.states - (0.0 if wanted is None else wanted), axis=1)
        late = np.flatnonzero(~(distance < within))
        first = int(late[-1]) + 1 if late.size else 0
        return float(self.ts[first]) if first < len(self.ts) else None


def field_plant(
    field: AbstractField,
    dt: float,
    *,
    substeps: int = 10,
    solver: AbstractSolver = RK4,
    coordinates: int | None = None,
) -> Plant:
    """A field as a plant: integrated over one interval in a number of steps, with the input held."""

    @jax.jit
    def advance(z, u):
        ts = jnp.linspace(0.0, dt, substeps + 1)
        return flat(solver.solve(field, structured(z, coordinates), ts, lambda t: u))[-1]

    def plant(z, u):
        with jax.enable_x64(True):
            return np.asarray(advance(np.asarray(z, float), np.asarray(u, float)))

    return plant


def closed_loop(controller: MPC, plant: Plant, start: Float[np.ndarray, " states"], *, steps: int) -> ClosedLoop:
    """Let the controller, reset, steer the plant for a number of intervals."""
    if steps < 1:
        raise InputError(f"got {steps} control steps: need at least 1")
    z = np.asarray(start, float)
    controller.problem.check_start(z)
    dt = controller.problem.dt
    controller.reset()
    states, inputs = [z], []
    for k in range(steps):
        try:
            u = controller.step(z, k * dt)
        except InfeasibleError as error:
            raise InfeasibleError(f"step {k} (t = {k * dt:g} s): {error}") from None
        z = plant(z, u)
        if not np.all(np.isfinite(z)):
            raise InputError(f"step {k} (t = {k * dt:g} s): the plant's state is no longer finite")
        states.append(z)
        inputs.append(u)
    return ClosedLoop(dt * np.arange(steps + 1), np.array(states), np.array(inputs), np.array(controller.seconds))
