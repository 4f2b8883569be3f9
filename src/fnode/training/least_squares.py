"""Levenberg-Marquardt: the fit of any model as the nonlinear least-squares problem that it is."""

import dataclasses
import math
import time
from collections.abc import Callable

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
STALLED = 8  # accepted steps of hardly any progress after which there is no use in going on
LEAST_DAMPING, MOST_DAMPING = 1e-16, 1e8
REASONS = ("out of iterations", "nothing left to fit", "stalled", "no step lowers the cost", "cost not finite")
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
    """Levenberg-Marquardt with Nielsen's damping on `mean(penalty(r)) + ridge |p - p0|^2`.

    A step solves `(J^T J + damping) d = -g`: in the space of residuals where they are fewer than the parameters, and
    in the space of parameters otherwise, with `J^T J` summed over pieces of the samples. A robust penalty becomes
    weights that follow the residuals.
    """

    iterations: int = 200
    tolerance: float = 1e-3  # relative decrease of the cost below which a step counts as slow
    target: float = 1e-28  # a cost at which there is nothing left to fit
    damping: float = 1e-2
    penalty: Penalty = dataclasses.field(default_factory=SquaredError)

    def minimise(
        self,
        model: PyTree,
        residual: Callable,
        samples: PyTree,
        *,
        ridge: float = 1e-10,
        strength: PyTree | None = None,
        around: bool = False,
        resume_from: Callable[[Step], Step | None] = lambda fresh: None,
        report: Callable[[Step], None] = lambda step: None,
    ) -> Solution:
        """Fit `model` so that `residual(model, sample)`, a vector, is small over all samples.

        `strength` has the structure of the model's trainable part and says how much of the ridge each parameter
        feels; the ridge pulls towards zero, or `around` the given model. `resume_from` may turn the fresh state into
        an earlier one.
        """
        trained, fixed = eqx.partition(model, is_trainable(model))
        flat, unflatten = jax.flatten_util.ravel_pytree(trained)
        felt = jnp.ones_like(flat) if strength is None else jax.flatten_util.ravel_pytree(strength)[0]
        pull = Pull(ridge * felt, flat if around else jnp.zeros_like(flat))
        # Types are spelled out: a weakly typed number would compile everything a second time.
        number, count = (lambda value: jnp.array(value, flat.dtype)), (lambda value: jnp.array(value, int))
        history = jnp.full(self.iterations, jnp.nan, flat.dtype)
        fresh = Step(flat, number(jnp.inf), number(self.damping), number(2), count(0), count(0), count(0), history)
        step = resume_from(fresh) or fresh
        started = time.perf_counter()
        step = jax.block_until_ready(_advance(self, residual, step, trained, fixed, samples, pull, jnp.array(0)))
        seconds_compile, started, chunk = time.perf_counter() - started, time.perf_counter(), 1
        while int(step.iteration) < self.iterations and int(step.reason) == 0:
            before, until = time.perf_counter(), jnp.array(int(step.iteration) + chunk)
            step = jax.block_until_ready(_advance(self, residual, step, trained, fixed, samples, pull, until))
            report(step)
            chunk = max(1, round(chunk * CHUNK_SECONDS / (time.perf_counter() - before)))
        return Solution(
            eqx.combine(unflatten(step.parameters), fixed),
            float(step.cost),
            np.asarray(step.history)[: int(step.iteration)],
            REASONS[int(step.reason)],
            seconds_compile,
            time.perf_counter() - started,
        )


class Pull(eqx.Module):
    """The ridge of every parameter, and where it pulls to."""

    ridge: Float[Array, " parameters"]
    toward: Float[Array, " parameters"]

    def cost(self, parameters):
        return jnp.sum(self.ridge * (parameters - self.toward) ** 2)

    def gradient(self, parameters):
        return self.ridge * (parameters - self.toward)


@eqx.filter_jit
def _advance(options: LeastSquares, residual, step: Step, trained, fixed, samples, pull: Pull, until) -> Step:
    """The state of the iteration some iterations later."""
    unflatten = jax.flatten_util.ravel_pytree(trained)[1]

    def residual_of(parameters, sample):
        return residual(eqx.combine(unflatten(parameters), fixed), sample)

    def cost_of(parameters):
        values = options.penalty(jax.vmap(lambda sample: residual_of(parameters, sample))(samples))
        return jnp.mean(values) + pull.cost(parameters)

    def equations_of(parameters):
        return _equations(residual_of, parameters, samples, options.penalty)

    def iterate(carry):
        step, equations, stale = carry
        equations = jax.lax.cond(stale, lambda: equations_of(step.parameters), lambda: equations)
        change, gradient = _direction(step, equations, pull)
        moved = step.parameters + change
        cost = cost_of(moved)
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

    cost = cost_of(step.parameters)
    begun = dataclasses.replace(step, cost=cost, reason=jnp.where(jnp.isfinite(cost), step.reason, UNFIT))
    last = jnp.minimum(until, options.iterations)
    shapes = jax.eval_shape(equations_of, step.parameters)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.while_loop(
        lambda carry: (carry[0].iteration < last) & (carry[0].reason == 0), iterate, (begun, nothing, jnp.array(True))
    )[0]


class Dual(eqx.Module):
    """`J` and `r`, both over the root of their number: residuals are few."""

    slope: Float[Array, "residuals parameters"]
    residual: Float[Array, " residuals"]


class Primal(eqx.Module):
    """`J^T J` and `J^T r`, both over the number of residuals: parameters are few."""

    matrix: Float[Array, "parameters parameters"]
    right: Float[Array, " parameters"]


def _equations(residual_of: Callable, parameters, samples, penalty: Penalty) -> Dual | Primal:
    count = jax.tree.leaves(samples)[0].shape[0]

    def one(sample):
        r = residual_of(parameters, sample)
        jacobian = jax.jacrev if r.size * 4 < parameters.size else jax.jacfwd
        weight = jnp.sqrt(penalty.weight(r))
        return weight * r, weight[:, None] * jacobian(lambda p: residual_of(p, sample))(parameters)

    channels = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], samples))[0].shape[0]
    total, size = count * channels, parameters.size
    if total < size:
        r, slope = jax.vmap(one)(samples)
        return Dual(slope.reshape(total, size) / math.sqrt(total), r.reshape(total) / math.sqrt(total))

    def add(sums: Primal, samples):
        r, slope = jax.vmap(one)(samples)
        slope = slope.reshape(-1, size)
        return Primal(sums.matrix + slope.T @ slope, sums.right + slope.T @ r.reshape(-1)), None

    piece = max(1, min(count, JACOBIAN_BYTES // (8 * channels * size)))
    whole = count // piece * piece
    pieces = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, piece, *leaf.shape[1:]), samples)
    sums, _ = jax.lax.scan(add, Primal(jnp.zeros((size, size)), jnp.zeros(size)), pieces)
    if whole < count:
        sums, _ = add(sums, jax.tree.map(lambda leaf: leaf[whole:], samples))
    return Primal(sums.matrix / total, sums.right / total)


def _direction(step: Step, equations: Dual | Primal, pull: Pull):
    """The step that lowers the linearised cost, and half the gradient of the cost."""
    shift, back = step.damping + pull.ridge, pull.gradient(step.parameters)
    if isinstance(equations, Primal):
        gradient = equations.right + back
        factor = jax.scipy.linalg.cho_factor(equations.matrix + jnp.diag(shift))
        return -jax.scipy.linalg.cho_solve(factor, gradient), gradient
    slope = equations.slope
    thin = slope / shift
    factor = jax.scipy.linalg.cho_factor(thin @ slope.T + jnp.eye(slope.shape[0]))
    inside = thin.T @ jax.scipy.linalg.cho_solve(factor, equations.residual)
    outside = back / shift - thin.T @ jax.scipy.linalg.cho_solve(factor, slope @ (back / shift))
    return -(inside + outside), slope.T @ equations.residual + back
