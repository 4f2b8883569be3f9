"""How far a prediction is from the truth: what `scores.json` holds."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fnode.trajectory import State


def flat(x: State) -> Float[Array, "*batch state"]:
    """Coordinates and velocities side by side."""
    return jnp.concatenate([x.q, x.v], axis=-1)


def mse(predicted: State, true: State) -> float:
    """Plain mean over time points and state components, positions and velocities alike (the paper's figure)."""
    return float(np.mean(_squares(predicted, true)))


def rmse(predicted: State, true: State) -> np.ndarray:
    """Root mean square error of each state component."""
    return np.sqrt(np.mean(_squares(predicted, true), axis=0))


def energy_drift(energies: Float[Array, " samples"], kinetic: Float[Array, " samples"]) -> float:
    """Change of energy from the first to the last sample, in units of the true motion's largest kinetic energy."""
    first, last = float(energies[0]), float(energies[-1])
    return (last - first) / float(np.max(kinetic))


def _squares(predicted: State, true: State) -> np.ndarray:
    """Squared errors; of a rollout that left for good they are infinite or not a number."""
    found, known = (np.concatenate([x.q, x.v], axis=-1, dtype=float) for x in (predicted, true))
    with np.errstate(over="ignore", invalid="ignore"):
        return (found - known) ** 2
