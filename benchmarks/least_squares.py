"""Our Levenberg-Marquardt against optimistix's and against L-BFGS of optax, on one residual problem.

    python benchmarks/least_squares.py [--json]

The accelerations of the cart-pole by a network of 2 x 32 beside a linear skip, labels of `auto`, float64, one thread.
All make the same `mean(r^2) + ridge |p|^2` small, from the same start; each first runs as long as it is allowed or able
to, and then the time is taken to the cost that both ours and the peer reach: the higher of their two last ones.
Compilation is left out on both sides.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import dataclasses
import sys

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
import optimistix
from _bench import interleaved, result, show

from fnode.config import Network
from fnode.models import is_trainable
from fnode.preparation import labelled, prepare, resolved
from fnode.structures import fresh
from fnode.training import LeastSquares, weighted_residual

SYSTEM, RIDGE, REPEATS = "cart_pole", 1e-9, 5
NETWORK = Network(structure="linear_skip", width=32, depth=2, angles="plain", scale=True)
STEPS = {"optimistix": 12, "optax_lbfgs": 10_000}  # what each is allowed: seconds, not minutes
SLACK = 1 + 1e-6  # the last cost itself is to count as reached, whatever round-off a second run has


class Problem:
    """The residuals of the labelled samples as a function of one flat array of parameters."""

    def __init__(self):
        config = resolved({"system": SYSTEM}, "auto", SYSTEM)
        (prepared,) = prepare(config)
        samples = labelled(prepared.recordings, prepared.labels, config.labels)
        worth = jnp.broadcast_to(1 / jnp.var(samples.rate, axis=0), samples.rate.shape)
        weight = worth if samples.weight is None else worth * samples.weight
        self.samples = dataclasses.replace(samples, weight=weight)
        self.model = fresh(NETWORK, prepared.recordings[0].truth.columns, jax.random.key(0), samples)
        trained, self.fixed = eqx.partition(self.model, is_trainable(self.model))
        self.start, self.unflatten = jax.flatten_util.ravel_pytree(trained)

    def residuals(self, parameters):
        """A vector whose sum of squares is the cost."""
        field = eqx.combine(self.unflatten(parameters), self.fixed)
        r = jax.vmap(lambda sample: weighted_residual(field, sample))(self.samples).reshape(-1)
        return jnp.concatenate([r / jnp.sqrt(r.size), jnp.sqrt(RIDGE) * parameters])

    def cost(self, parameters):
        return jnp.sum(self.residuals(parameters) ** 2)

    def ours(self, target: float):
        """The cost and the number of iterations at the end, or as soon as the cost is below the target."""
        options = LeastSquares(target=target)
        solution = options.minimise(self.model, weighted_residual, self.samples, ridge=RIDGE)
        return solution.cost, len(solution.history), solution.reason


def optimistix_peer(problem: Problem, most: int):
    """optimistix's Levenberg-Marquardt, stepped inside one compiled loop so that it can stop at a cost.

    Its linear solver is its default, QR; the normal equations with Cholesky's factors took longer per step here.
    """
    solver = optimistix.LevenbergMarquardt(rtol=1e-12, atol=1e-14)
    nothing: frozenset = frozenset()

    def residuals(parameters, _):
        return problem.residuals(parameters), None

    @jax.jit
    def run(target):
        shapes = jax.eval_shape(problem.residuals, problem.start)
        state = solver.init(residuals, problem.start, None, {}, shapes, None, nothing)
        arrays, static = eqx.partition(state, eqx.is_array)

        def cost(arrays):
            return 2 * eqx.combine(arrays, static).f_info.as_min()

        def go_on(carry):
            _, arrays, step = carry
            # Nothing is known of the start before the first step has been there.
            return (step < 1) | ((step < most) & (cost(arrays) > target))

        def advance(carry):
            y, arrays, step = carry
            y, state, _ = solver.step(residuals, y, None, {}, eqx.combine(arrays, static), nothing)
            return y, eqx.filter(state, eqx.is_array), step + 1

        _, arrays, steps = jax.lax.while_loop(go_on, advance, (problem.start, arrays, jnp.array(0)))
        return cost(arrays), steps

    return lambda target: jax.block_until_ready(run(target))


def lbfgs_peer(problem: Problem, most: int):
    """optax's L-BFGS with its zoom line search, inside one compiled loop."""
    optimiser = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(problem.cost)

    @jax.jit
    def run(target):
        def go_on(carry):
            _, state, step = carry
            return (step < most) & (optax.tree.get(state, "value") > target)

        def advance(carry):
            y, state, step = carry
            value, slope = value_and_grad(y, state=state)
            change, state = optimiser.update(slope, state, y, value=value, grad=slope, value_fn=problem.cost)
            return optax.apply_updates(y, change), state, step + 1

        first = (problem.start, optimiser.init(problem.start), jnp.array(0))
        _, state, steps = jax.lax.while_loop(go_on, advance, first)
        return optax.tree.get(state, "value"), steps

    return lambda target: jax.block_until_ready(run(target))


def main():
    jax.config.update("jax_enable_x64", True)
    problem = Problem()
    peers = {
        "optimistix": optimistix_peer(problem, STEPS["optimistix"]),
        "optax_lbfgs": lbfgs_peer(problem, STEPS["optax_lbfgs"]),
    }
    last, iterations, reason = problem.ours(0.0)
    notes = [f"ours: cost {last:.2e} after {iterations} iterations ({reason})"]
    results = {}
    for name, peer in peers.items():
        cost, steps = (float(value) for value in peer(0.0))
        target = SLACK * max(cost, last)
        mine = problem.ours(target)  # a target is part of our compiled program
        mine_seconds, peer_seconds = interleaved(
            lambda target=target: problem.ours(target), lambda peer=peer, target=target: peer(target), repeats=REPEATS
        )
        results[name] = {
            **result(mine_seconds, peer_seconds, "s"),
            "cost": target,
            "ours_last_cost": last,
            "peer_last_cost": cost,
        }
        notes.append(
            f"{name}: cost {cost:.2e} after {steps:.0f} steps, of {STEPS[name]} allowed; "
            f"ours needs {mine[1]} iterations to {target:.2e}"
        )
        print(f"{name}: ours {mine_seconds:.3f} s, peer {peer_seconds:.3f} s", file=sys.stderr, flush=True)
    size, count = problem.start.size, problem.samples.rate.size
    show(f"seconds to the same cost, cart-pole, {size} parameters, {count} residuals, float64", results, notes)


if __name__ == "__main__":
    main()
