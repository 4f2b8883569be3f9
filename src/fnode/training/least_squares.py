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
from fnode.training.compilation import CompileClock
from fnode.training.flattening import in_line, in_place
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
    each: PyTree  # what belongs to each sample alone, or None
    cost: float
    history: np.ndarray
    reason: str
    seconds_compile: float
    seconds_train: float


@dataclasses.dataclass(frozen=True)
class LeastSquares:
    """Levenberg-Marquardt with Nielsen's damping on `mean(penalty(r)) + ridge |p - p0|^2`.

    A step solves `(J^T J + damping) d = -g`: in the space of residuals where they are fewer than the parameters, and
    in the space of parameters otherwise, with `J^T J` summed over pieces of the samples. Unknowns that belong to one
    sample alone, such as its start, are eliminated sample by sample. A robust penalty becomes weights that follow the
    residuals.
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
        each: PyTree | None = None,
        ridge: float = 1e-10,
        strength: PyTree | None = None,
        around: bool = False,
        resume_from: Callable[[Step], Step | None] = lambda fresh: None,
        report: Callable[[Step], None] = lambda step: None,
    ) -> Solution:
        """Fit `model` so that `residual(model, sample)`, a vector, is small over all samples.

        With `each`, unknowns of which every sample has its own along the leading axis, it is `residual(model, own,
        sample)`; no ridge is on those.
        `strength` has the structure of the model's trainable part and says how much of the ridge each parameter
        feels: one that feels infinitely much stays as it is. The ridge pulls towards zero, or `around` the given
        model. `resume_from` may turn the fresh state into an earlier one.
        """
        trained, fixed = eqx.partition(model, is_trainable(model))
        start = in_line(trained)
        felt = np.ones_like(start) if strength is None else in_line(strength)
        free = np.flatnonzero(np.isfinite(felt))
        rows, unflatten_row = _rows(each, samples)
        flat = jnp.asarray(np.concatenate([start[free], np.ravel(rows)]))
        strengths = jnp.asarray(ridge * np.concatenate([felt[free], np.zeros(rows.size)]))
        pull = Pull(strengths, flat if around else jnp.asarray(np.zeros(flat.size)))
        # Types are spelled out: a weakly typed number would compile everything a second time.
        number, count = (lambda value: jnp.array(value, flat.dtype)), (lambda value: jnp.array(value, int))
        history = jnp.asarray(np.full(self.iterations, np.nan))
        fresh = Step(flat, number(jnp.inf), number(self.damping), number(2), count(0), count(0), count(0), history)
        step, free = resume_from(fresh) or fresh, jnp.asarray(free)
        began, chunk = time.perf_counter(), 1
        with CompileClock() as compiling:
            while int(step.iteration) < self.iterations and int(step.reason) == 0:
                before, until = time.perf_counter(), jnp.array(int(step.iteration) + chunk)
                step = jax.block_until_ready(
                    _advance(self, residual, step, trained, free, fixed, each, samples, pull, until)
                )
                report(step)
                chunk = max(1, round(chunk * CHUNK_SECONDS / (time.perf_counter() - before)))
        shared = flat.size - rows.size
        start[free] = step.parameters[:shared]
        return Solution(
            eqx.combine(in_place(start, trained), fixed),
            None if each is None else jax.vmap(unflatten_row)(step.parameters[shared:].reshape(rows.shape)),
            float(step.cost),
            np.asarray(step.history)[: int(step.iteration)],
            REASONS[int(step.reason)],
            compiling.seconds,
            time.perf_counter() - began - compiling.seconds,
        )


class Pull(eqx.Module):
    """The ridge of every parameter, and where it pulls to."""

    ridge: Float[Array, " parameters"]
    toward: Float[Array, " parameters"]

    def cost(self, parameters):
        return jnp.sum(self.ridge * (parameters - self.toward) ** 2)

    def gradient(self, parameters):
        return self.ridge * (parameters - self.toward)


def _rows(each: PyTree, samples):
    """What belongs to each sample as one row of numbers, and how a row becomes what it was."""
    if each is None:
        return jnp.zeros((jax.tree.leaves(samples)[0].shape[0], 0)), lambda row: None
    unflatten = jax.flatten_util.ravel_pytree(jax.tree.map(lambda leaf: leaf[0], each))[1]
    return jax.vmap(lambda own: jax.flatten_util.ravel_pytree(own)[0])(each), unflatten


@eqx.filter_jit
def _advance(
    options: LeastSquares, residual, step: Step, trained, free, fixed, each, samples, pull: Pull, until
) -> Step:
    """The state of the iteration some iterations later."""
    start, unflatten = jax.flatten_util.ravel_pytree(trained)
    rows, unflatten_row = _rows(each, samples)

    def apart(parameters):
        return parameters[: free.size], parameters[free.size :].reshape(rows.shape)

    def residual_of(shared, row, sample):
        model = eqx.combine(unflatten(start.at[free].set(shared)), fixed)
        return residual(model, sample) if each is None else residual(model, unflatten_row(row), sample)

    def cost_of(parameters):
        shared, own = apart(parameters)
        values = options.penalty(jax.vmap(residual_of, in_axes=(None, 0, 0))(shared, own, samples))
        return jnp.mean(values) + pull.cost(parameters)

    def equations_of(parameters):
        if each is None:
            return _equations(
                lambda shared, sample: residual_of(shared, None, sample), parameters, samples, options.penalty
            )
        return _arrow(residual_of, *apart(parameters), samples, options.penalty)

    def iterate(carry):
        step, equations, stale = carry
        equations = jax.lax.cond(stale, lambda: equations_of(step.parameters), lambda: equations)
        here = equations.cost + pull.cost(step.parameters)
        change, gradient = _direction(step, equations, pull)
        moved = step.parameters + change
        cost = cost_of(moved)
        promised = jnp.dot(change, step.damping * change - gradient)
        gain = (here - cost) / jnp.maximum(promised, 1e-300)
        fit = jnp.isfinite(here)
        accepted = fit & jnp.isfinite(cost) & (cost < here)
        hardly = accepted & (here - cost < options.tolerance * here)
        slow = jnp.where(accepted, jnp.where(hardly, step.slow + 1, 0), step.slow)
        eased = jnp.maximum(step.damping * jnp.maximum(1 / 3, 1 - (2 * gain - 1) ** 3), LEAST_DAMPING)
        damping = jnp.where(accepted, eased, step.damping * step.growth)
        reasons = (~fit, accepted & (cost < options.target), slow >= STALLED, damping > MOST_DAMPING)
        reached = jnp.where(accepted, cost, here)
        new = Step(
            jnp.where(accepted, moved, step.parameters),
            reached,
            damping,
            jnp.where(accepted, 2.0, 2 * step.growth),
            step.iteration + fit,
            slow,
            jnp.select(reasons, (UNFIT, 1, 2, 3), 0).astype(step.reason.dtype),
            step.history.at[step.iteration].set(reached),
        )
        return new, equations, accepted

    last = jnp.minimum(until, options.iterations)
    shapes = jax.eval_shape(equations_of, step.parameters)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.while_loop(
        lambda carry: (carry[0].iteration < last) & (carry[0].reason == 0), iterate, (step, nothing, jnp.array(True))
    )[0]


class Dual(eqx.Module):
    """`J` and `r`, both over the root of their number: residuals are few. Like the others, with the mean penalty."""

    slope: Float[Array, "residuals parameters"]
    residual: Float[Array, " residuals"]
    cost: Float[Array, ""]


class Primal(eqx.Module):
    """`J^T J` and `J^T r`, both over the number of residuals: parameters are few."""

    matrix: Float[Array, "parameters parameters"]
    right: Float[Array, " parameters"]
    cost: Float[Array, ""]


class Arrow(eqx.Module):
    """The blocks of `J^T J` and `J^T r` where every sample has unknowns of its own: nothing joins those."""

    matrix: Float[Array, "shared shared"]
    right: Float[Array, " shared"]
    cost: Float[Array, ""]
    own_matrix: Float[Array, "samples own own"]
    mixed: Float[Array, "samples own shared"]
    own_right: Float[Array, "samples own"]


def _arrow(residual_of: Callable, shared, rows, samples, penalty: Penalty) -> Arrow:
    def one(row, sample):
        r = residual_of(shared, row, sample)
        weight = jnp.sqrt(penalty.weight(r))
        slope, own = jax.jacfwd(residual_of, argnums=(0, 1))(shared, row, sample)
        cost = jnp.sum(penalty(r))
        r, slope, own = weight * r, weight[:, None] * slope, weight[:, None] * own
        return (slope.T @ slope, slope.T @ r, cost), (own.T @ own, own.T @ slope, own.T @ r)

    def add(sums, sample):
        shared, own = one(*sample)
        return jax.tree.map(jnp.add, sums, shared), own

    nothing = jnp.zeros((shared.size, shared.size)), jnp.zeros(shared.size), jnp.zeros(())
    (matrix, right, cost), own = jax.lax.scan(add, nothing, (rows, samples))
    residuals = jax.eval_shape(residual_of, shared, rows[0], jax.tree.map(lambda leaf: leaf[0], samples)).size
    return jax.tree.map(lambda leaf: leaf / (residuals * rows.shape[0]), Arrow(matrix, right, cost, *own))


def _equations(residual_of: Callable, parameters, samples, penalty: Penalty) -> Dual | Primal:
    count = jax.tree.leaves(samples)[0].shape[0]

    def one(sample):
        r, back = jax.vjp(lambda p: residual_of(p, sample), parameters)
        if r.size * 4 < parameters.size:
            (slope,) = jax.vmap(back)(jnp.eye(r.size, dtype=r.dtype))
        else:
            slope = jax.jacfwd(lambda p: residual_of(p, sample))(parameters)
        weight = jnp.sqrt(penalty.weight(r))
        return weight * r, weight[:, None] * slope, jnp.sum(penalty(r))

    channels = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], samples))[0].shape[0]
    total, size = count * channels, parameters.size
    if total < size:
        r, slope, costs = jax.vmap(one)(samples)
        root = math.sqrt(total)
        return Dual(slope.reshape(total, size) / root, r.reshape(total) / root, jnp.sum(costs) / total)

    def add(sums: Primal, samples):
        r, slope, costs = jax.vmap(one)(samples)
        slope = slope.reshape(-1, size)
        more = Primal(slope.T @ slope, slope.T @ r.reshape(-1), jnp.sum(costs))
        return jax.tree.map(jnp.add, sums, more), None

    piece = max(1, min(count, JACOBIAN_BYTES // (8 * channels * size)))
    whole = count // piece * piece
    pieces = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, piece, *leaf.shape[1:]), samples)
    sums, _ = jax.lax.scan(add, Primal(jnp.zeros((size, size)), jnp.zeros(size), jnp.zeros(())), pieces)
    if whole < count:
        sums, _ = add(sums, jax.tree.map(lambda leaf: leaf[whole:], samples))
    return jax.tree.map(lambda leaf: leaf / total, sums)


def _direction(step: Step, equations: Dual | Primal | Arrow, pull: Pull):
    """The step that lowers the linearised cost, and half the gradient of the cost."""
    shift, back = step.damping + pull.ridge, pull.gradient(step.parameters)
    if isinstance(equations, Arrow):
        return _eliminated(equations, shift, back)
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


def _eliminated(equations: Arrow, shift, back):
    """The step of an arrow: what belongs to single samples is expressed by what is shared, which is solved for."""
    count, own = equations.own_right.shape
    size = equations.right.size
    right = equations.right + back[:size]
    blocks = equations.own_matrix + jax.vmap(jnp.diag)(shift[size:].reshape(count, own))
    solved = jnp.linalg.solve(blocks, jnp.concatenate([equations.mixed, equations.own_right[..., None]], axis=2))
    left = equations.matrix + jnp.diag(shift[:size]) - jnp.einsum("kos,kot->st", equations.mixed, solved[..., :-1])
    less = right - jnp.einsum("kos,ko->s", equations.mixed, solved[..., -1])
    shared = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(left), less)
    each = -solved[..., -1] - solved[..., :-1] @ shared
    return jnp.concatenate([shared, each.reshape(-1)]), jnp.concatenate([right, equations.own_right.reshape(-1)])
