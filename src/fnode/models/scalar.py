"""A learned function of state with one value: an energy, a Lagrangian."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.models.network import perceptron
from fnode.models.scaler import Scaler


class ScalarNetwork(eqx.Module):
    """One number from coordinates, velocities or momenta, and parameters; its value matters only by its slopes."""

    network: eqx.nn.MLP
    features: Scaler

    @classmethod
    def untrained(
        cls, inputs: int, *, width: int, depth: int, features: Scaler | None = None, key: PRNGKeyArray
    ) -> "ScalarNetwork":
        network = perceptron(inputs, 1, width=width, depth=depth, key=key)
        return cls(network, features or Scaler.identity(inputs))

    def __call__(
        self, q: Float[Array, " n"], moving: Float[Array, " n"], u: Float[Array, " external"] | None = None
    ) -> Float[Array, ""]:
        parts = [q, moving] if u is None else [q, moving, u]
        return self.network(self.features.standardise(jnp.concatenate(parts)))[0]
