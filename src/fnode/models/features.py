"""What a network is shown of a configuration."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.models.scaler import Scaler


class Features(eqx.Module):
    """Coordinates and parameters, scaled; angles marked in `turns` by sine and cosine, so that the function repeats."""

    scaler: Scaler
    turns: tuple[bool, ...] = eqx.field(static=True)
    inputs: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return len(self.turns) + sum(self.turns)

    def __call__(self, q: Float[Array, " coordinates"], u=None) -> Float[Array, " features"]:
        variables = q if u is None else jnp.concatenate([q, u[self.inputs :]])
        plain = self.scaler.standardise(variables)
        shown = [
            jnp.stack([jnp.sin(raw), jnp.cos(raw)]) if turn else scaled[None]
            for raw, scaled, turn in zip(variables, plain, self.turns, strict=True)
        ]
        return jnp.concatenate(shown)
