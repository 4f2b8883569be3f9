"""A Lagrangian library and a small network for the forces that it misses."""

import equinox as eqx
from jaxtyping import PRNGKeyArray

from fnode.field import AbstractAcceleration
from fnode.models.fnode import observation
from fnode.models.library import Library
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler
from fnode.models.small_matrices import solve


class LibraryNetwork(AbstractAcceleration):
    """`M q'' = (forces of the library) + (forces of a network)`; the network is bounded wherever the state goes."""

    library: Library
    network: eqx.nn.MLP
    features: Scaler
    targets: Scaler
    turns: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def untrained(
        cls,
        library: Library,
        features: Scaler,
        targets: Scaler,
        turns: tuple[bool, ...],
        *,
        width: int,
        depth: int,
        key: PRNGKeyArray,
    ) -> "LibraryNetwork":
        """A network that is silent at first, beside the library."""
        network = perceptron(features.mean.shape[0], targets.mean.shape[0], width=width, depth=depth, key=key)
        output = network.layers[-1].weight
        return cls(
            library, eqx.tree_at(lambda net: net.layers[-1].weight, network, 0 * output), features, targets, turns
        )

    def acceleration(self, t, x, u=None):
        shown = self.features.standardise(observation(x, u, "state", self.turns))
        missing = self.targets.spread * self.network(shown)
        mass, forces = self.library.balance(x, u)
        return solve(mass, forces + missing)
