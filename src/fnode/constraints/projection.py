"""The nearest state that obeys the constraints."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.constraints.holonomic import Holonomic
from fnode.trajectory import State

MOST_ITERATIONS = 100


def project(constraints: Holonomic, x: State, weight: Float[Array, " n"] | None = None) -> State:
    """The state near `x` with `phi(q) = 0` and `J v = 0`.

    `weight` (such as masses) makes some coordinates harder to move than others. Each step is the smallest one, in the
    weighted norm, that meets the linearised constraints; redundant constraints do no harm. Where the constraints
    cannot be met the result is a pose that breaks them little: check `constraints(q)`.
    """
    scale = jnp.ones_like(x.q) if weight is None else 1 / jnp.sqrt(weight)
    tolerance = 0.1 * jnp.sqrt(jnp.finfo(x.q.dtype).eps)

    def smallest(q, error):
        """The least change `d` with `J d = error`."""
        return scale * (jnp.linalg.pinv(constraints.jacobian(q) * scale, rtol=1e-10) @ error)

    def improve(carry):
        q, _, count = carry
        step = smallest(q, constraints(q))
        # A step longer than the pose itself comes from a nearly singular Jacobian: go only part of the way.
        step = step / jnp.maximum(1.0, jnp.linalg.norm(step) / (1 + jnp.linalg.norm(q)))
        return q - step, jnp.max(jnp.abs(step)), count + 1

    def unfinished(carry):
        _, size, count = carry
        return (size > tolerance) & (count < MOST_ITERATIONS)

    q, _, _ = jax.lax.while_loop(unfinished, improve, (x.q, jnp.asarray(jnp.inf, x.q.dtype), 0))
    return State(q, x.v - smallest(q, constraints.jacobian(q) @ x.v))
