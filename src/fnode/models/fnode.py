"""FNODE: a network that maps a state straight to its accelerations (the paper's Eq. 4)."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler
from fnode.trajectory import Columns

Sees = Literal["state", "positions"]


class FNODE(AbstractAcceleration):
    """Accelerations from coordinates, velocities, inputs and parameters by one network.

    With `sees="positions"` the network knows no velocities: a field that symplectic schemes integrate exactly as such.
    Coordinates marked in `turns` are shown by their sine and cosine: the field then repeats with every turn. A linear
    `skip` beside the network leaves to it only what is not linear, and carries on outside the data.
    """

    network: eqx.nn.MLP
    skip: Float[Array, "coordinates features"] | None
    features: Scaler
    targets: Scaler
    sees: Sees = eqx.field(static=True)
    turns: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def untrained(
        cls,
        columns: Columns,
        *,
        width: int,
        depth: int,
        sees: Sees = "state",
        turns: tuple[bool, ...] | None = None,
        features: Scaler | None = None,
        targets: Scaler | None = None,
        linear_skip: bool = False,
        key: PRNGKeyArray,
    ) -> "FNODE":
        """A model with fresh weights; without scalers the network sees and gives plain physical units."""
        n = len(columns.coordinates)
        turns = turns or (False,) * n
        inputs = n * (2 if sees == "state" else 1) + sum(turns) + len(columns.external)
        network = perceptron(inputs, n, width=width, depth=depth, key=key)
        skip = jnp.zeros((n, inputs)) if linear_skip else None
        return cls(network, skip, features or Scaler.identity(inputs), targets or Scaler.identity(n), sees, turns)

    def acceleration(self, t, x, u=None):
        shown = observation(x, u, self.sees, self.turns)
        scaled = self.features.standardise(shown)
        value = self.network(scaled)
        return self.targets.restore(value if self.skip is None else value + self.skip @ scaled)


def observation(x, u, sees: Sees, turns: tuple[bool, ...]):
    """What the network is shown of a state: one flat array."""
    places = [jnp.stack([jnp.sin(q), jnp.cos(q)]) if turn else q[None] for q, turn in zip(x.q, turns, strict=True)]
    shown = places if sees == "positions" else [*places, x.v]
    return jnp.concatenate(shown if u is None else [*shown, u])
