"""One step of model predictive control: a programme set up once against one rebuilt in every step.

    python benchmarks/control.py [--json]

The paper's problem: cart-pole, 50 stages of 0.05 s, terminal constraint, bounds. The peer is the paper's way, the
problem stated anew in CVXPY in every step and solved by SCS with its default tolerance; ours is updated in place and
solved by PIQP to 1e-10. Both take the same states, those of a closed loop.

`QP`: update and solve, with one linear model for all steps (the paper's controller).
`step`: the whole controller step with a linearisation at every state met, for the analytic model and for the paper's
network (2 x 256); `step, nonlinear`: linearised at all 50 stages about the predicted motion. A
rebuilt problem costs the peer the same in all of them, without the linearisation, which is left out of its time.
Percentiles over all steps are printed beside the table.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from _bench import result, show

from fnode.control import MPC, AlongPlan, AtPoint, AtState, Balance, closed_loop, discretise, field_plant, linearise
from fnode.field import AbstractAcceleration
from fnode.models import FNODE
from fnode.systems import ForcedCartPole
from fnode.trajectory import State

try:
    import cvxpy
except ModuleNotFoundError:
    sys.exit("this benchmark compares with CVXPY and SCS: pip install 'fnode[peers]'")

REPEATS = 7
STEPS = 25  # of ours between two of the peer's


def rebuilt(task, model):
    """The paper's way: a function of the state that states and solves the whole problem."""
    a, b = np.asarray(model.a), np.asarray(model.b)
    high = np.array([task.x_max, task.theta_max])

    def solve(z0):
        z, u = cvxpy.Variable((4, task.horizon + 1)), cvxpy.Variable((1, task.horizon))
        cost, constraints = 0, [z[:, 0] == z0, z[:, task.horizon] == 0]
        for k in range(task.horizon):
            cost += cvxpy.quad_form(z[:, k], np.eye(4)) + cvxpy.quad_form(u[:, k], np.eye(1))
            constraints += [z[:, k + 1] == a @ z[:, k] + b @ u[:, k]]
            constraints += [cvxpy.abs(z[:2, k]) <= high, cvxpy.abs(u[:, k]) <= task.u_max]
        cvxpy.Problem(cvxpy.Minimize(cost), constraints).solve(solver=cvxpy.SCS)
        return u.value[:, 0]

    return solve


class AsCostly(AbstractAcceleration):
    """The cart-pole with the paper's network inside: as costly as a learned model, and as steerable as the true one."""

    system: ForcedCartPole
    network: FNODE

    def acceleration(self, t, x, u=None):
        return self.system.acceleration(t, x, u) + 1e-9 * self.network.acceleration(t, x, u)


def controllers(system, task):
    """The variants by name: a controller each, warmed up."""
    network = FNODE.untrained(system.columns, width=256, depth=2, key=jax.random.key(0))
    made = {
        "QP": MPC(system, task.problem, linearisation=AtPoint(), scheme=task.discretisation),
        "step, analytic": MPC(system, task.problem, linearisation=AtState(), scheme=task.discretisation),
        "step, network": MPC(
            AsCostly(system, network), task.problem, linearisation=AtState(), scheme=task.discretisation
        ),
        "step, nonlinear": MPC(system, task.problem, linearisation=AlongPlan(), scheme="rk4"),
    }
    for controller in made.values():
        controller.step(task.start)
    return made


def main():
    jax.config.update("jax_enable_x64", True)
    system, task = ForcedCartPole(), Balance()
    upright = linearise(system, State(jnp.zeros(2), jnp.zeros(2)), jnp.zeros(1))
    peer = rebuilt(task, discretise(upright, task.dt, scheme=task.discretisation))
    ours = controllers(system, task)
    plant = field_plant(system, task.dt)
    states = closed_loop(task.controller(system), plant, task.start, steps=REPEATS * STEPS).states
    inputs = {"QP": ours["QP"].step(states[0])[0], "peer": peer(states[0])[0]}  # warm up, and compare
    times, others = {name: [] for name in ours}, []
    for repeat in range(REPEATS):
        stretch = states[repeat * STEPS : (repeat + 1) * STEPS]
        for name, controller in ours.items():
            for z in stretch:
                began = time.perf_counter()
                controller.step(z)
                times[name].append(time.perf_counter() - began)
        began = time.perf_counter()
        peer(stretch[0])
        others.append(time.perf_counter() - began)
    slow = float(np.median(others))
    results = {name: result(1e3 * float(np.median(taken)), 1e3 * slow, "ms") for name, taken in times.items()}
    late = ", ".join(f"{name} {1e3 * np.percentile(taken, 99):.2f} ms" for name, taken in times.items())
    notes = [
        f"99th percentile over {REPEATS * STEPS} steps: {late}",
        f"first input: ours {inputs['QP']:.4f} N, peer {inputs['peer']:.4f} N",
    ]
    show("one control step, 50 stages, one core (peer: CVXPY and SCS, rebuilt)", results, notes)


if __name__ == "__main__":
    main()
