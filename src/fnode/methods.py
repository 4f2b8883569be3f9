"""The models one can ask for by name: how each is built, what it is trained on, and where it does not apply."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from fnode.config import Config, Network, Training
from fnode.errors import InputError, choose
from fnode.models import FCNN, HNN, LNN, LSTM, Scaler
from fnode.recording import Recording
from fnode.solvers import RK4, AdjointRK4, refined, solver_named
from fnode.systems import AbstractMechanical, AbstractSystem
from fnode.training import (
    Adam,
    DerivativeLoss,
    HamiltonLoss,
    Huber,
    InstantLoss,
    Labelled,
    NextStateLoss,
    SquaredError,
    TrajectoryLoss,
    check_even,
    instants,
    windows,
)
from fnode.training.losses import Penalty
from fnode.trajectory import Columns

Build = Callable[[Config, Network, Columns, PRNGKeyArray, Labelled | None], Any]
Reason = str | None


@dataclasses.dataclass(frozen=True)
class Method:
    """A model with the way it is trained.

    `build` makes it with fresh weights (None: the acceleration field that the network's settings describe); `samples`
    is what training sees, `loss` what it makes small; `refuses` says why data do not suit it, `assumes` what it takes
    for granted of data whose system is not known.
    """

    summary: str
    loss: Callable[[Config], Callable]
    build: Build | None = None
    samples: Callable[[Config, Sequence[Recording], Labelled], Any] = lambda config, recordings, labelled: labelled
    labels: bool = True  # whether training sees accelerations
    refuses: Callable[[Columns, AbstractSystem | None], Reason] = lambda columns, system: None
    assumes: str | None = None


def method_named(name: str) -> Method:
    """The method with this name, or an error that lists the names there are."""
    return METHODS[choose("model", name, METHODS)]


def check_method(config: Config, columns: Columns, system: AbstractSystem | None) -> Reason:
    """An error where the model does not apply; else what it takes for granted, if there is anything to tell."""
    method = method_named(config.model)
    reason = method.refuses(columns, system)
    if reason:
        name = config.system or "these data"
        raise InputError(f"{config.model} does not apply to {name}: {reason}; choose another model, such as fnode")
    return f"{config.model} assumes {method.assumes}" if method.assumes and system is None else None


def _derivative_loss(config: Config) -> DerivativeLoss:
    training = config.training
    return DerivativeLoss(penalty_of(training))


def _trajectory_loss(config: Config) -> TrajectoryLoss:
    solver, adjoint, substeps = solver_named(config.rollout.solver), config.windows.adjoint, config.rollout.substeps
    if adjoint == "steps":
        return TrajectoryLoss(refined(solver, 1 if substeps == "auto" else substeps))
    if solver is not RK4:
        raise InputError(f"got adjoint={adjoint} with solver={config.rollout.solver}: set solver=rk4 or adjoint=steps")
    return TrajectoryLoss(AdjointRK4(adjoint))


def _even_windows(config: Config, recordings: Sequence[Recording], labelled: Labelled):
    check_even(recordings)
    return windows(recordings, config.windows.window)


def _states(samples: Labelled):
    return jnp.concatenate([samples.x.q, samples.x.v], axis=1)


def _between(values) -> Scaler:
    """Scales to 0 .. 1 over these samples."""
    least, most = jnp.min(values, axis=0), jnp.max(values, axis=0)
    return Scaler(least, jnp.where(most > least, most - least, 1.0))


def _lstm(config, network, columns, key, samples):
    states = external = None
    if samples is not None:
        states = _between(_states(samples))
        external = None if samples.u is None else _between(samples.u)
    size = {"width": network.width, "depth": network.depth, "window": config.windows.window}
    return LSTM.untrained(columns, **size, states=states, external=external, key=key)


def _fcnn(config, network, columns, key, samples):
    features = targets = None
    if network.scale and samples is not None:
        shown = samples.t[:, None] if samples.u is None else jnp.concatenate([samples.t[:, None], samples.u], axis=1)
        features, targets = Scaler.of(shown), Scaler.of(_states(samples))
    return FCNN.untrained(
        columns, width=network.width, depth=network.depth, features=features, targets=targets, key=key
    )


def _of_energy(kind: type[HNN] | type[LNN]) -> Build:
    def build(config, network, columns, key, samples):
        features = None
        if network.scale and samples is not None:
            shown = [_states(samples)] if samples.u is None else [_states(samples), samples.u]
            features = Scaler.of(jnp.concatenate(shown, axis=1))
        return kind.untrained(columns, width=network.width, depth=network.depth, features=features, key=key)

    return build


def _loses_energy(columns: Columns, system: AbstractSystem | None) -> Reason:
    """Why no energy of the state alone governs these data."""
    if columns.first_order:
        return "its equations are of first order, without momenta"
    if columns.inputs:
        return f"its inputs ({', '.join(column.name for column in columns.inputs)}) do work on it"
    if system is not None and columns != system.columns:
        return "its coordinates are bound by constraints: set coordinates=minimal"
    if system is not None and not system.conservative:
        return "it is damped or rubs, and what the model learns conserves energy"
    return None


def _no_momenta(columns: Columns, system: AbstractSystem | None) -> Reason:
    """Why momenta cannot be told from velocities."""
    reason = _loses_energy(columns, system)
    if reason is None and isinstance(system, AbstractMechanical) and not has_constant_mass(system):
        reason = "its mass matrix depends on the configuration, so momenta cannot be told from velocities"
    return reason


def has_constant_mass(system: AbstractMechanical) -> bool:
    """Whether the mass matrix is the same at every configuration: compared at a few that lie in no special way."""
    n = len(system.columns.coordinates)
    places = jax.random.uniform(jax.random.key(0), (4, n), minval=-1.5, maxval=1.5)
    masses = np.asarray(jax.jit(jax.vmap(lambda q: jax.hessian(system.kinetic, 1)(q, jnp.zeros(n))))(places))
    return bool(np.allclose(masses, masses[0], rtol=1e-5, atol=1e-6 * np.abs(masses).max()))


METHODS: dict[str, Method] = {
    "fnode": Method("Accelerations by a network, fitted to differentiated data.", _derivative_loss),
    "mbd_node": Method(
        "The same network, trained through the integrator on windows of states.",
        _trajectory_loss,
        samples=lambda config, recordings, labelled: windows(recordings, config.windows.window),
        labels=False,
    ),
    "lstm": Method(
        "The next state from a window of states.",
        lambda config: NextStateLoss(),
        build=_lstm,
        samples=_even_windows,
        labels=False,
    ),
    "fcnn": Method(
        "States as a function of time.",
        lambda config: InstantLoss(),
        build=_fcnn,
        samples=lambda config, recordings, labelled: instants(recordings),
        labels=False,
    ),
    "hnn": Method(
        "A learned energy and Hamilton's equations, for a constant mass matrix.",
        lambda config: HamiltonLoss(),
        build=_of_energy(HNN),
        refuses=_no_momenta,
        assumes="that energy is conserved and the mass matrix does not depend on the configuration",
    ),
    "lnn": Method(
        "A learned Lagrangian and the Euler-Lagrange equation.",
        _derivative_loss,
        build=_of_energy(LNN),
        refuses=_loses_energy,
        assumes="that energy is conserved",
    ),
}


def optimiser_of(settings: Training) -> Adam:
    """The gradient descent that settings ask for."""
    return Adam(
        learning_rate=settings.learning_rate,
        decay=settings.decay,
        weight_decay=settings.weight_decay,
        decoupled=settings.optimiser == "adamw",
        clip=settings.clip,
    )


def penalty_of(settings: Training) -> Penalty:
    """What an error costs by the settings."""
    return SquaredError() if settings.loss == "mse" else Huber(settings.huber_delta)
