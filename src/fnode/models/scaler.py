"""Fixed scaling of a network's inputs and outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Scaler(eqx.Module):
    """Shift and scale to zero mean and unit spread; measured once on the training part, never trained."""

    mean: Float[Array, " channels"]
    spread: Float[Array, " channels"]

    @classmethod
    def of(cls, samples: Float[Array, "samples channels"]) -> "Scaler":
        """The scaler that standardises these samples; a channel that does not vary is only shifted."""
        spread = jnp.std(samples, axis=0)
        return cls(jnp.mean(samples, axis=0), jnp.where(spread > 0, spread, 1.0))

    @classmethod
    def identity(cls, channels: int) -> "Scaler":
        return cls(jnp.zeros(channels), jnp.ones(channels))

    def standardise(self, values: Float[Array, " channels"]) -> Float[Array, " channels"]:
        mean, spread = jax.lax.stop_gradient((self.mean, self.spread))
        return (values - mean) / spread

    def restore(self, values: Float[Array, " channels"]) -> Float[Array, " channels"]:
        mean, spread = jax.lax.stop_gradient((self.mean, self.spread))
        return mean + spread * values
