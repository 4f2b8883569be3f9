"""What a learned field can be made of: every structure by name, with fresh weights."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from fnode.config import Network
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.models import (
    FNODE,
    Features,
    LearnedLagrangian,
    Library,
    LibraryNetwork,
    Polynomial,
    Quadratic,
    Rates,
    Scaler,
    empty_library,
    learned_rates,
    observation,
    rate_observation,
)
from fnode.training import Labelled
from fnode.trajectory import Columns


def fresh(network: Network, columns: Columns, key: PRNGKeyArray, samples: Labelled | None = None) -> AbstractField:
    """An untrained field of the structure that `network` names; `samples` set its scalers, where it has any."""
    if columns.first_order:
        return _first_order(network, columns, key, samples if network.scale else None)
    n, inputs, external = len(columns.coordinates), len(columns.inputs), len(columns.external)
    sincos = network.angles == "sincos"
    turns = tuple(sincos and column.angle for column in (*columns.coordinates, *columns.parameters))
    scale = network.scale and samples is not None

    def scaler(size: int, values) -> Scaler:
        return Scaler.of(values(samples)) if scale else Scaler.identity(size)

    targets = scaler(n, lambda s: s.rate)
    coefficient = _coefficient(network, columns)
    configuration = scaler(
        n + external - inputs - (coefficient is not None), lambda s: _configuration(s, inputs, coefficient)
    )
    shape = {"width": network.width, "depth": network.depth, "key": key}

    def library() -> Library:
        return empty_library(
            columns,
            network.degree,
            scaler=configuration,
            friction=network.friction,
            coefficient=coefficient,
            v=samples.x.v if samples is not None else None,
        )

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


def _first_order(network: Network, columns: Columns, key: PRNGKeyArray, samples: Labelled | None) -> Rates:
    """An untrained field of rates; samples set its scalers and fit its polynomial."""
    if network.structure not in ("mlp", "library_network"):
        raise InputError(
            f"structure={network.structure} needs velocities, and this system is of first order: choose mlp or "
            "library_network"
        )
    n, kinematics = len(columns.coordinates), network.kinematics
    turns = tuple(network.angles == "sincos" and column.angle for column in columns.coordinates)
    inputs = (n + sum(turns) if kinematics == "free" else 1) + len(columns.external)
    outputs = n if kinematics == "free" else 2
    features, targets, polynomial = Scaler.identity(inputs), Scaler.identity(outputs), None
    if network.structure == "library_network":
        polynomial = Polynomial.zero(inputs, outputs, network.degree)
    if samples is not None:
        shown = jax.vmap(lambda s: rate_observation(s.x, s.u, kinematics, turns))(samples)
        wanted = learned_rates(samples.rate, kinematics)
        features = Scaler.of(shown)
        if polynomial is not None:
            scaled = jax.vmap(features.standardise)(shown)
            polynomial = Polynomial.fitted(scaled, wanted, network.degree)
            wanted = wanted - jax.vmap(polynomial)(scaled)
        targets = Scaler.of(wanted)
    return Rates.untrained(
        columns,
        width=network.width,
        depth=network.depth,
        kinematics=kinematics,
        turns=turns,
        features=features,
        targets=targets,
        polynomial=polynomial,
        key=key,
    )


def _coefficient(network: Network, columns: Columns) -> int | None:
    """Which of the external values is the coefficient of friction."""
    if network.coefficient is None:
        return None
    names = [column.name for column in columns.parameters]
    if network.friction != "load" or network.coefficient not in names:
        known = f"one of {', '.join(names)}" if names else "a parameter, and there is none"
        raise InputError(
            f"got coefficient={network.coefficient} with friction={network.friction}: need friction=load and {known}"
        )
    return len(columns.inputs) + names.index(network.coefficient)


def _configuration(samples: Labelled, inputs: int, left_out: int | None):
    """Coordinates and parameters side by side."""
    if samples.u is None:
        return samples.x.q
    parameters = [samples.u[:, k : k + 1] for k in range(inputs, samples.u.shape[1]) if k != left_out]
    return jnp.concatenate([samples.x.q, *parameters], axis=1)
