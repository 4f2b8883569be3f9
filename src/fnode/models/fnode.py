"""FNODE: a network that maps a state straight to its accelerations (the paper's Eq. 4)."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler
from fnode.trajectory import Columns

Sees = Literal["state", "positions"]


class FNODE(AbstractAcceleration):
    """Accelerations from coordinates, velocities, inputs and parameters by one network.

    With `sees="positions"` the network knows no velocities: a field that symplectic schemes integrate exactly as such.
    """

    network: eqx.nn.MLP
    features: Scaler
    targets: Scaler
    sees: Sees = eqx.field(static=True)

    @classmethod
    def untrained(
        cls,
        columns: Columns,
        *,
        width: int,
        depth: int,
        sees: Sees = "state",
        features: Scaler | None = None,
        targets: Scaler | None = None,
        key: PRNGKeyArray,
    ) -> "FNODE":
        """A model with fresh weights; without scalers the network sees and gives plain physical units."""
        n = len(columns.coordinates)
        inputs = n * (2 if sees == "state" else 1) + len(columns.external)
        network = perceptron(inputs, n, width=width, depth=depth, key=key)
        return cls(network, features or Scaler.identity(inputs), targets or Scaler.identity(n), sees)

    def acceleration(self, t, x, u=None):
        return self.targets.restore(self.network(self.features.standardise(observation(x, u, self.sees))))


def observation(x, u, sees: Sees):
    """What the network is shown of a state: one flat array."""
    shown = [x.q] if sees == "positions" else [x.q, x.v]
    return jnp.concatenate(shown if u is None else [*shown, u])
