"""FCNN: a network from time to state. It knows one motion, not its law."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.models.forecaster import AbstractForecaster
from fnode.models.network import perceptron
from fnode.models.scaler import Scaler
from fnode.trajectory import Columns, State


class FCNN(AbstractForecaster):
    """States as a function of time, and of inputs and parameters at that time.

    Wherever a motion begins, the answer is the motion it was shown.
    """

    network: eqx.nn.MLP
    features: Scaler
    targets: Scaler
    coordinates: int = eqx.field(static=True)

    @classmethod
    def untrained(
        cls,
        columns: Columns,
        *,
        width: int,
        depth: int,
        features: Scaler | None = None,
        targets: Scaler | None = None,
        key: PRNGKeyArray,
    ) -> "FCNN":
        """A model with fresh weights; without scalers the network sees plain seconds and gives plain units."""
        inputs, outputs = 1 + len(columns.external), len(columns.state)
        network = perceptron(inputs, outputs, width=width, depth=depth, key=key)
        features, targets = features or Scaler.identity(inputs), targets or Scaler.identity(outputs)
        return cls(network, features, targets, len(columns.coordinates))

    @property
    def needs(self):
        return 0

    def scaled(self, t, u: Float[Array, " external"] | None = None) -> Float[Array, " state"]:
        """The state at a time, as the network gives it."""
        t = jnp.atleast_1d(t)
        return self.network(self.features.standardise(t if u is None else jnp.concatenate([t, u])))

    def predict(self, past, ts, control=None):
        n = self.coordinates

        def at(t):
            return self.targets.restore(self.scaled(t, None if control is None else control(t)))

        states = jax.vmap(at)(ts).astype(ts.dtype)  # motions are in the precision of their times
        return State(states[:, :n], states[:, n:])
