"""Coulomb friction at a joint, consistent with the force that presses the joint together."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

MOST_STEPS = 12


class Friction(eqx.Module):
    """A force `-mu N tanh(s'/v_s)` against the slip `s` of a joint, `N` the size of the joint's own multiplier.

    The hyperbolic tangent stands for the sign of the slip speed: below about `v_s` (m/s) the joint creeps instead of
    sticking. `radius` is that of the pin of a revolute joint. With an `input` the coefficient is the value of that
    signal (a parameter is an input that does not change).
    """

    joint: str = eqx.field(static=True)
    mu: float | Array
    v_s: float | Array = 1e-3
    radius: float | Array = 1.0
    input: str | None = eqx.field(static=True, default=None)


def consistent_forces(
    limit: Callable[[Float[Array, " k"]], Float[Array, " k"]], guess: Float[Array, " k"], *, steps: int
) -> Float[Array, " k"]:
    """Friction forces `f = limit(f)`: they change the multipliers that they themselves are made of.

    Multipliers are linear in `f`, so for one sliding joint the equation has one straight piece per sign of the
    multiplier, and a single Newton step from no friction lands on the self-consistent one. Several joints, or a pin,
    take a few steps. Where friction is so strong that no branch is consistent (Painleve's paradox) the forces are not
    finite.
    """

    def excess(f):
        return f - limit(f)

    def improve(f, _):
        return f - jnp.linalg.solve(jax.jacfwd(excess)(f), excess(f)), None

    f, _ = jax.lax.scan(improve, guess, length=steps)
    settled = jnp.all(jnp.abs(excess(f)) <= 1e-6 * (1 + jnp.abs(f)))
    return jnp.where(settled, f, jnp.nan)
