"""How far a prediction is from the truth: what `scores.json` holds."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.trajectory import State


def flat(x: State) -> Float[Array, "*batch state"]:
    """Coordinates and velocities side by side."""
    return jnp.concatenate([x.q, x.v], axis=-1)


def mse(predicted: State, true: State) -> Float[Array, ""]:
    """Plain mean over time points and state components, positions and velocities alike (the paper's figure)."""
    return jnp.mean((flat(predicted) - flat(true)) ** 2)


def rmse(predicted: State, true: State) -> Float[Array, " state"]:
    """Root mean square error of each state component."""
    return jnp.sqrt(jnp.mean((flat(predicted) - flat(true)) ** 2, axis=0))


def energy_drift(energies: Float[Array, " samples"], kinetic: Float[Array, " samples"]) -> Float[Array, ""]:
    """Change of energy from the first to the last sample, in units of the true motion's largest kinetic energy."""
    return (energies[-1] - energies[0]) / jnp.max(kinetic)
