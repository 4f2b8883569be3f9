"""The rates of a system of first order by one network (the paper's vehicle, its Eq. for q')."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.models.network import perceptron
from fnode.models.polynomial import Polynomial
from fnode.models.scaler import Scaler
from fnode.trajectory import Columns, State

Kinematics = Literal["free", "rolling"]
ROLLING = ("x", "y", "theta", "v")


class Rates(AbstractField):
    """First derivatives of coordinates from coordinates, inputs and parameters.

    `free` learns the rate of every coordinate from all of them. `rolling` knows that a vehicle moves where it heads,
    `x' = v cos(theta)` and `y' = v sin(theta)`, and that place and heading make no difference to it: only the rates of
    heading and speed are learned, from the speed. Coordinates marked in `turns` are shown by their sine and cosine.
    Beside the network there may be a `polynomial` in the same features: the network then learns what it leaves over,
    in units of that.
    """

    network: eqx.nn.MLP
    polynomial: Polynomial | None
    features: Scaler
    targets: Scaler
    kinematics: Kinematics = eqx.field(static=True)
    turns: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def untrained(
        cls,
        columns: Columns,
        *,
        width: int,
        depth: int,
        kinematics: Kinematics,
        turns: tuple[bool, ...],
        features: Scaler,
        targets: Scaler,
        polynomial: Polynomial | None = None,
        key: PRNGKeyArray,
    ) -> "Rates":
        """A model with fresh weights."""
        names = tuple(column.name for column in columns.coordinates)
        if kinematics == "rolling" and names != ROLLING:
            raise InputError(
                f"kinematics=rolling needs the coordinates {', '.join(ROLLING)}, got {', '.join(names)}: set "
                "kinematics=free"
            )
        inputs, outputs = features.mean.shape[0], targets.mean.shape[0]
        network = perceptron(inputs, outputs, width=width, depth=depth, key=key)
        return cls(network, polynomial, features, targets, kinematics, turns)

    def scaled(self, x: State, u: Float[Array, " external"] | None = None) -> Float[Array, " learned"]:
        """The learned rates as the network gives them, in units of the spread of its targets."""
        shown = self.features.standardise(rate_observation(x, u, self.kinematics, self.turns))
        value = self.network(shown)
        return value if self.polynomial is None else value + self.polynomial(shown) / self.targets.spread

    def __call__(self, t, x, u=None):
        learned = self.targets.restore(self.scaled(x, u))
        if self.kinematics == "free":
            return State(learned, x.v)
        _, _, theta, v = x.q
        known = jnp.stack([v * jnp.cos(theta), v * jnp.sin(theta)])
        return State(jnp.concatenate([known, learned]), x.v)


def learned_rates(rate: Float[Array, "*batch coordinates"], kinematics: Kinematics):
    """Those of all rates that the network is there for."""
    return rate if kinematics == "free" else rate[..., 2:]


def rate_observation(x: State, u, kinematics: Kinematics, turns: tuple[bool, ...]):
    """What the network is shown of a state: one flat array."""
    if kinematics == "rolling":
        shown = [x.q[3:]]
    else:
        shown = [jnp.stack([jnp.sin(q), jnp.cos(q)]) if turn else q[None] for q, turn in zip(x.q, turns, strict=True)]
    return jnp.concatenate(shown if u is None else [*shown, u])
