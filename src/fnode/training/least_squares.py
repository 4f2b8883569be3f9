"""Levenberg-Marquardt: the fit of any model as the nonlinear least-squares problem that it is."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from fnode.models import is_trainable
from fnode.training.losses import Penalty, SquaredError

CHUNK_SECONDS = 1.0  # how long the compiled loop runs before progress and Ctrl-C get their turn
JACOBIAN_BYTES = 128 * 2**20  # the largest piece of the Jacobian that is held at once
STALLED = 8  # iterations of hardly any progress after which there is no use in going on
LEAST_DAMPING, MOST_DAMPING = 1e-16, 1e8
REASONS = ("out of iterations", "converged", "stalled", "no step lowers the cost", "cost not finite")
UNFIT = len(REASONS) - 1


class Step(eqx.Module):
    """Where the iteration stands: all that is needed to go on from here."""

    parameters: Float[Array, " parameters"]
    cost: Float[Array, ""]
    damping: Float[Array, ""]
    growth: Float[Array, ""]
    iteration: Int[Array, ""]
    slow: Int[Array, ""]  # accepted steps in a row that hardly helped
    reason: Int[Array, ""]  # index into REASONS; 0 while it goes on
    history: Float[Array, " iterations"]


@dataclasses.dataclass(frozen=True)
class Solution:
    """The fitted model, the cost of every iteration, why it stopped, and the time it took."""

    model: PyTree
    cost: float
    history: np.ndarray
    reason: str
    seconds_compile: float
    seconds_train: float


@dataclasses.dataclass(frozen=True)
class LeastSquares:
    """Levenberg-Marquardt with Nielsen's damping on `mean(penalty(r)) + ridge |p|^2`.

    The step solves `(J^T J + damping) d = -g`: in the space of residuals where they are fewer than the parameters,
    and in the space of parameters otherwise, with `J^T J` summed over pieces of the samples. A robust penalty is
    handled by weights that follow the residuals. Beyond `largest` in both, matrices of that size are no longer worth
    their factorisation: use `Adam`.
    """

    iterations: int = 200
    ridge: float = 1e-10
    tolerance: float = 1e-4  # relative decrease of the cost below which an iteration counts as slow
    target: float = 1e-28  # a cost at which there is nothing left to fit
    damping: float = 1e-2
    penalty: Penalty = dataclasses.field(default_factory=SquaredError)

    largest: ClassVar[int] = 6000

    def minimise(
        self,
        model: PyTree,
        residual: Callable,
        samples: PyTree,
        *,
        regularised: Callable | None = None,
        resume_from: Callable[[Step], Step | None] = lambda fresh: None,
        report: Callable[[Step], None] = lambda step: None,
    ) -> Solution:
        """Fit `model` so that `residual(model, sample)`, a vector, is small over all samples.

        `regularised` may turn the model's trainable part into relative weights of the ridge per parameter.
        """
        trained, fixed = eqx.partition(model, is_trainable(model))
        flat, unflatten = jax.flatten_util.ravel_pytree(trained)
        wide = jnp.result_type(float)
        weights = jnp.ones_like(flat) if regularised is None else jax.flatten_util.ravel_pytree(regularised(trained))[0]
        fresh = Step(
            flat.astype(wide),
            jnp.array(jnp.inf, wide),
            jnp.array(self.damping, wide),
            jnp.array(2.0, wide),
            jnp.array(0),
            jnp.array(0),
            jnp.array(0),
            jnp.full(self.iterations, jnp.nan, wide),
        )
        step = resume_from(fresh) or fresh
        arrays, static = eqx.partition((fixed, samples), eqx.is_array)
        program = _program(self, residual, unflatten, static)
        started = time.perf_counter()
        compiled = jax.jit(program).lower(step, arrays, weights, jnp.array(0)).compile()
        seconds_compile = time.perf_counter() - started
        started, chunk = time.perf_counter(), 1
        while int(step.iteration) < self.iterations and int(step.reason) == 0:
            before, done = time.perf_counter(), int(step.iteration)
            step = jax.block_until_ready(compiled(step, arrays, weights, jnp.array(done + chunk)))
            report(step)
            chunk = max(1, round(chunk * CHUNK_SECONDS / (time.perf_counter() - before)))
        fitted = eqx.combine(unflatten(step.parameters.astype(flat.dtype)), fixed)
        seconds = time.perf_counter() - started
        history = np.asarray(step.history)[: int(step.iteration)]
        return Solution(fitted, float(step.cost), history, REASONS[int(step.reason)], seconds_compile, seconds)


def _program(options: LeastSquares, residual: Callable, unflatten: Callable, static):
    """The compiled loop: from a state of the iteration to the state some iterations later."""

    def residuals(parameters, arrays):
        fixed, samples = eqx.combine(arrays, static)
        model = eqx.combine(unflatten(parameters), fixed)
        return jax.vmap(lambda sample: residual(model, sample))(samples)

    def cost_of(parameters, arrays, weights):
        values = jax.vmap(options.penalty)(residuals(parameters, arrays))
        return jnp.mean(values) + options.ridge * jnp.sum(weights * parameters**2)

    def normal_equations(parameters, arrays):
        """`J^T J` and `J^T r` of the mean, or `J` and `r` themselves where residuals are few."""
        fixed, samples = eqx.combine(arrays, static)
        count = jax.tree.leaves(samples)[0].shape[0]

        def one(sample):
            def value(p):
                return residual(eqx.combine(unflatten(p), fixed), sample)

            r = value(parameters)
            slope = (jax.jacrev if r.size * 4 < parameters.size else jax.jacfwd)(value)(parameters)
            # A robust penalty as a weighted square: w = penalty'(r) / (2 r).
            weight = jnp.sqrt(options.penalty.weight(r))
            return weight * r, weight[:, None] * slope

        channels = jax.eval_shape(lambda: one(jax.tree.map(lambda leaf: leaf[0], samples)))[0].shape[0]
        total = count * channels
        if total < parameters.size:
            r, slope = jax.vmap(one)(samples)
            return (slope.reshape(total, -1) / math.sqrt(total), r.reshape(total) / math.sqrt(total))
        piece = max(1, min(count, JACOBIAN_BYTES // (8 * channels * parameters.size)))
        whole = count // piece * piece

        def add(sums, samples):
            r, slope = jax.vmap(one)(samples)
            slope, r = slope.reshape(-1, parameters.size), r.reshape(-1)
            return (sums[0] + slope.T @ slope, sums[1] + slope.T @ r), None

        sums = (jnp.zeros((parameters.size,) * 2), jnp.zeros(parameters.size))
        pieces = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, piece, *leaf.shape[1:]), samples)
        sums, _ = jax.lax.scan(add, sums, pieces)
        if whole < count:
            sums, _ = add(sums, jax.tree.map(lambda leaf: leaf[whole:], samples))
        return sums[0] / total, sums[1] / total

    def direction(parameters, damping, equations, weights):
        matrix, right = equations
        shift = damping + options.ridge * weights
        pull = options.ridge * weights * parameters
        if matrix.shape[0] == parameters.size and right.shape == parameters.shape:
            gradient = right + pull
            factor = jax.scipy.linalg.cho_factor(matrix + jnp.diag(shift))
            return -jax.scipy.linalg.cho_solve(factor, gradient), gradient
        gradient = matrix.T @ right + pull
        thin = matrix / shift
        factor = jax.scipy.linalg.cho_factor(thin @ matrix.T + jnp.eye(matrix.shape[0]))

        def solve(values):  # (shift + J^T J)^-1 values, for values outside the span of J^T
            scaled = values / shift
            return scaled - thin.T @ jax.scipy.linalg.cho_solve(factor, matrix @ scaled)

        return -(thin.T @ jax.scipy.linalg.cho_solve(factor, right) + solve(pull)), gradient

    def program(step: Step, arrays, weights, until) -> Step:
        def iterate(carry):
            step, equations, stale = carry
            equations = jax.lax.cond(stale, lambda: normal_equations(step.parameters, arrays), lambda: equations)
            change, gradient = direction(step.parameters, step.damping, equations, weights)
            moved = step.parameters + change
            cost = cost_of(moved, arrays, weights)
            promised = jnp.dot(change, step.damping * change - gradient)
            gain = (step.cost - cost) / jnp.maximum(promised, 1e-300)
            accepted = jnp.isfinite(cost) & (cost < step.cost)
            hardly = accepted & (step.cost - cost < options.tolerance * step.cost)
            slow = jnp.where(accepted, jnp.where(hardly, step.slow + 1, 0), step.slow)
            eased = jnp.maximum(step.damping * jnp.maximum(1 / 3, 1 - (2 * gain - 1) ** 3), LEAST_DAMPING)
            damping = jnp.where(accepted, eased, step.damping * step.growth)
            reasons = (accepted & (cost < options.target), slow >= STALLED, damping > MOST_DAMPING)
            new = Step(
                jnp.where(accepted, moved, step.parameters),
                jnp.where(accepted, cost, step.cost),
                damping,
                jnp.where(accepted, 2.0, 2 * step.growth),
                step.iteration + 1,
                slow,
                jnp.select(reasons, (1, 2, 3), 0),
                step.history.at[step.iteration].set(jnp.where(accepted, cost, step.cost)),
            )
            return new, equations, accepted

        cost = cost_of(step.parameters, arrays, weights)
        begun = dataclasses.replace(step, cost=cost, reason=jnp.where(jnp.isfinite(cost), step.reason, UNFIT))
        last = jnp.minimum(until, options.iterations)

        def going(carry):
            return (carry[0].iteration < last) & (carry[0].reason == 0)

        shapes = jax.eval_shape(lambda: normal_equations(step.parameters, arrays))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.while_loop(going, iterate, (begun, nothing, jnp.array(True)))[0]

    return program
