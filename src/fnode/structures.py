"""What a learned field can be made of: every structure by name, with fresh weights."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from fnode.config import Network
from fnode.field import AbstractField
from fnode.models import (
    FNODE,
    Features,
    LearnedLagrangian,
    Library,
    LibraryNetwork,
    Quadratic,
    Resistance,
    Scaler,
    empty_library,
    observation,
)
from fnode.training import Labelled
from fnode.trajectory import Columns


def fresh(network: Network, columns: Columns, key: PRNGKeyArray, samples: Labelled | None = None) -> AbstractField:
    """An untrained field of the structure that `network` names; `samples` set its scalers, where it has any."""
    n, inputs, external = len(columns.coordinates), len(columns.inputs), len(columns.external)
    sincos = network.angles == "sincos"
    turns = tuple(sincos and column.angle for column in (*columns.coordinates, *columns.parameters))
    scale = network.scale and samples is not None

    def scaler(size: int, values) -> Scaler:
        return Scaler.of(values(samples)) if scale else Scaler.identity(size)

    targets = scaler(n, lambda s: s.rate)
    configuration = scaler(n + external - inputs, lambda s: _configuration(s, inputs))
    shape = {"width": network.width, "depth": network.depth, "key": key}

    def library() -> Library:
        resistance = Resistance.between(n, samples.x.v if samples is not None else None) if network.friction else None
        return empty_library(columns, network.degree, scaler=configuration, resistance=resistance)

    if network.structure == "library":
        return library()
    if network.structure in ("mlp", "linear_skip", "library_network"):
        shown = turns[:n]
        sees = "state" if network.structure == "library_network" else network.inputs
        size = n * (2 if sees == "state" else 1) + sum(shown) + external
        features = scaler(size, jax.vmap(lambda s: observation(s.x, s.u, sees, shown)))
        if network.structure == "library_network":
            return LibraryNetwork.untrained(library(), features, targets, shown, **shape)
        skip = network.structure == "linear_skip"
        return FNODE.untrained(
            columns, sees=sees, turns=shown, features=features, targets=targets, linear_skip=skip, **shape
        )
    features = Features(configuration, turns, inputs)
    pushes = scaler(inputs, lambda s: s.u[:, :inputs]) if inputs else Scaler.identity(0)
    if network.structure == "quadratic":
        return Quadratic.untrained(features, scaler(n, lambda s: s.x.v), pushes, targets, **shape)
    return LearnedLagrangian.untrained(features, pushes, targets, **shape)


def _configuration(samples: Labelled, inputs: int):
    """Coordinates and parameters side by side."""
    return samples.x.q if samples.u is None else jnp.concatenate([samples.x.q, samples.u[:, inputs:]], axis=1)
