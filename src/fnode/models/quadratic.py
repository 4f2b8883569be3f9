"""Accelerations quadratic in the velocities, with coefficients that a network reads off the coordinates."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.features import Features
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler


class Quadratic(AbstractAcceleration):
    """`q'' = c(q) + C(q) q' + q' G(q) q' + B(q) u`: the form that every mechanism without sliding friction has.

    Between the data and far from it velocities enter as physics has them; only coordinates and parameters pass
    through the network, which is bounded.
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
    ) -> "Quadratic":
        n = targets.mean.shape[0]
        outputs = n * (1 + n + n * (n + 1) // 2 + inputs.mean.shape[0])
        network = perceptron(features.size, outputs, width=width, depth=depth, key=key)
        return cls(network, jnp.zeros((outputs, features.size)), features, velocities, inputs, targets)

    def acceleration(self, t, x, u=None):
        shown = self.features(x.q, u)
        coefficients = (self.network(shown) + self.skip @ shown).reshape(x.q.shape[0], -1)
        v = x.v / self.velocities.spread
        products = (v[:, None] * v)[np.triu_indices(v.shape[0])]
        pushes = jnp.zeros(0) if u is None else u[: self.inputs.mean.shape[0]] / self.inputs.spread
        factors = jnp.concatenate([jnp.ones(1), v, products, pushes])
        return self.targets.spread * (coefficients @ factors)
