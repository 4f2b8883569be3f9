"""All coordinates, velocities and accelerations from the independent ones (Wehage and Haug's partitioning)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.constraints.holonomic import Holonomic
from fnode.constraints.partition import Partition
from fnode.errors import InputError
from fnode.trajectory import Columns, State, Trajectory

MOST_ITERATIONS = 30


def complete_positions(constraints: Holonomic, partition: Partition, q: Float[Array, " n"]) -> Float[Array, " n"]:
    """The pose whose independent coordinates are those of `q`, by Newton's method from its dependent ones.

    Converges to round-off; where it cannot, the dependent coordinates are not finite. Derivatives of any order are
    those of the constraints, not of the iteration.
    """

    def residual(dependent):
        return constraints(q.at[partition.dependent].set(dependent))[partition.rows]

    def newton(residual, guess):
        # Convergence is quadratic: a step below the square root of round-off leaves nothing for the next one to do.
        small = 0.1 * jnp.sqrt(jnp.finfo(guess.dtype).eps)

        def improve(carry):
            z, _, count = carry
            step = jnp.linalg.solve(jax.jacfwd(residual)(z), residual(z))
            return z - step, jnp.max(jnp.abs(step) / (1 + jnp.abs(z)), initial=0.0), count + 1

        def unfinished(carry):
            _, size, count = carry
            return (size > small) & (count < MOST_ITERATIONS)

        z, size, _ = jax.lax.while_loop(unfinished, improve, (guess, jnp.asarray(jnp.inf, guess.dtype), 0))
        return jnp.where(size <= small, z, jnp.nan)

    def linear(tangent, rhs):
        return jnp.linalg.solve(jax.jacfwd(tangent)(rhs), rhs)

    dependent = jax.lax.custom_root(residual, q[partition.dependent], newton, linear)
    return q.at[partition.dependent].set(dependent)


def complete_velocities(
    constraints: Holonomic, partition: Partition, q: Float[Array, " n"], v: Float[Array, " f"]
) -> Float[Array, " n"]:
    """All velocities from the independent ones: `J v = 0`."""
    free, fixed = partition.split(constraints.jacobian(q))
    return _merge(partition, v, jnp.linalg.solve(fixed, -free @ v))


def complete_accelerations(
    constraints: Holonomic, partition: Partition, q: Float[Array, " n"], v: Float[Array, " n"], a: Float[Array, " f"]
) -> Float[Array, " n"]:
    """All accelerations from the independent ones: `J a = gamma`."""
    free, fixed = partition.split(constraints.jacobian(q))
    return _merge(partition, a, jnp.linalg.solve(fixed, constraints.gamma(q, v)[partition.rows] - free @ a))


def complete(
    constraints: Holonomic,
    partition: Partition,
    trajectory: Trajectory,
    guess: Float[Array, " n"],
    *,
    columns: Columns,
) -> Trajectory:
    """All coordinates of a motion known by its independent ones, at all three levels.

    `guess` is a pose near the first sample and chooses the assembly branch; every further sample starts from where the
    one before was heading, so that the branch is kept. Accelerations are completed where the trajectory has them. An
    error says when the independent coordinates cease to determine the others.
    """
    q, v, a, orientation = _complete_samples(constraints, partition, trajectory.ts, trajectory.x, trajectory.a, guess)
    bad = ~np.isfinite(np.asarray(q)).all(axis=1) | (np.asarray(orientation) != np.asarray(orientation)[0])
    if bad.any():
        k = int(np.argmax(bad))
        names = ", ".join(column.name for column in trajectory.columns.coordinates)
        raise InputError(
            f"at t = {float(trajectory.ts[k]):g} (sample {k}) {names} no longer determine the other coordinates: there "
            "is no such pose, or the motion passed a dead centre; choose other independent coordinates or finer samples"
        )
    return Trajectory(trajectory.ts, State(q, v), trajectory.u, a, columns=columns)


@eqx.filter_jit
def _complete_samples(constraints, partition, ts, x, a, guess):
    """One compiled loop over the samples; each is predicted from the one before by its velocity and acceleration."""
    known = a is not None
    accelerations = a if known else jnp.zeros_like(x.v)

    def advance(carry, sample):
        t, x, a_free = sample
        before, q, v, a = carry
        dt = t - before
        q = complete_positions(constraints, partition, (q + dt * (v + dt / 2 * a)).at[partition.independent].set(x.q))
        free, fixed = partition.split(constraints.jacobian(q))
        v = _merge(partition, x.v, jnp.linalg.solve(fixed, -free @ x.v))
        a = _merge(partition, a_free, jnp.linalg.solve(fixed, constraints.gamma(q, v)[partition.rows] - free @ a_free))
        return (t, q, v, a), (q, v, a, jnp.linalg.slogdet(fixed)[0])

    still = jnp.zeros_like(guess)
    _, (q, v, a, orientation) = jax.lax.scan(advance, (ts[0], guess, still, still), (ts, x, accelerations))
    return q, v, a if known else None, orientation


def _merge(partition, free, fixed):
    """One array in the order of the coordinates."""
    whole = jnp.zeros(free.shape[0] + fixed.shape[0], free.dtype)
    return whole.at[partition.independent].set(free).at[partition.dependent].set(fixed)
