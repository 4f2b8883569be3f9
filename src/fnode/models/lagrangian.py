"""A learned Lagrangian: mass matrix, potential and dissipation as networks, accelerations by Euler-Lagrange."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.features import Features
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler
from fnode.models.small_matrices import lower, solve

LEAST_MASS = 1e-3  # keeps the mass matrix positive whatever the network says


class LearnedLagrangian(AbstractAcceleration):
    """`M q'' + M' q' - dT/dq + dV/dq + D q' = B u` with `M = L L^T` and `D = K K^T` positive by construction.

    Coordinates are taken in units of their accelerations' spread, so that `M` starts as the unit matrix.
    """

    network: eqx.nn.MLP
    skip: Float[Array, "outputs features"]
    features: Features
    velocities: Scaler
    inputs: Scaler
    targets: Scaler

    @classmethod
    def untrained(
        cls, features: Features, velocities: Scaler, inputs: Scaler, targets: Scaler, *, width, depth, key: PRNGKeyArray
    ) -> "LearnedLagrangian":
        n = targets.mean.shape[0]
        outputs = 1 + n * (n + 1) + n * inputs.mean.shape[0]
        network = perceptron(features.size, outputs, width=width, depth=depth, key=key)
        return cls(network, jnp.zeros((outputs, features.size)), features, velocities, inputs, targets)

    def parts(self, q, u=None):
        """Mass matrix, potential, dissipation matrix and input matrix at a configuration, in scaled units."""
        n = q.shape[0]
        shown = self.features(q, u)
        values = self.network(shown) + self.skip @ shown
        pairs = n * (n + 1) // 2
        potential, mass, drag, push = jnp.split(values, (1, 1 + pairs, 1 + 2 * pairs))
        factor, rub = lower(mass, n) + jnp.eye(n), lower(drag, n)
        return factor @ factor.T + LEAST_MASS * jnp.eye(n), potential[0], rub @ rub.T, push.reshape(n, -1)

    def acceleration(self, t, x, u=None):
        scale = self.targets.spread
        v = x.v / scale  # the coordinates' unit is such that accelerations have unit spread

        def momentum(q):
            return self.parts(q, u)[0] @ v

        def stored(q):
            mass, potential, _, _ = self.parts(q, u)
            return 0.5 * v @ mass @ v - potential

        mass, _, drag, push = self.parts(x.q, u)
        pushes = jnp.zeros(0) if u is None else u[: self.inputs.mean.shape[0]] / self.inputs.spread
        slope = scale * jax.grad(stored)(x.q)
        return scale * solve(mass, slope - jax.jvp(momentum, (x.q,), (x.v,))[1] - drag @ v + push @ pushes)
