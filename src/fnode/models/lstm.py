"""LSTM: the next state from a window of states (Hochreiter and Schmidhuber, 1997)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.errors import InputError
from fnode.models.forecaster import AbstractForecaster
from fnode.models.scaler import Scaler
from fnode.trajectory import Columns, State, Trajectory


class Layer(eqx.Module):
    """One layer of cells: `c = s(f) c + s(i) tanh(g)`, `h = s(o) tanh(c)`, gates linear in the input and in `h`."""

    inputs: Float[Array, "gates features"]
    recurrent: Float[Array, "gates width"]
    bias: Float[Array, " gates"]

    @classmethod
    def untrained(cls, features: int, width: int, key: PRNGKeyArray) -> "Layer":
        """Weights and biases uniform within `1 / sqrt(width)`, as is usual for these cells."""
        shapes = ((4 * width, features), (4 * width, width), (4 * width,))
        return cls(*(_uniform(k, shape, width) for k, shape in zip(jax.random.split(key, 3), shapes, strict=True)))

    def __call__(self, xs: Float[Array, "window features"]) -> Float[Array, "window width"]:
        """What the cells say after each sample.

        Gates are linear in all weights, given what the cells said before: slopes in the weights are one product each
        after the loop back through time, where automatic differentiation would add up matrices in every turn of it.
        """
        shares = (self.inputs @ xs.T).T + self.bias  # this way round no copy of the weights is turned over
        recurrent = jax.lax.stop_gradient(self.recurrent)
        turns = _turns(recurrent, jax.lax.stop_gradient(shares))
        before = _before(turns.h)
        return _said(turns, recurrent, shares + (self.recurrent @ before.T).T)


class Turns(NamedTuple):
    """A layer after each sample: what it says, what it holds, and its gates `i`, `f`, `g`, `o`, open or shut."""

    h: Float[Array, "window width"]
    c: Float[Array, "window width"]
    gates: Float[Array, "window gates"]


def _turns(recurrent, shares) -> Turns:
    """The loop over a window, from the input's share of the gates."""
    still = jnp.zeros(recurrent.shape[1], shares.dtype)

    def turn(carry, share):
        h, c = carry
        i, f, g, o = jnp.split(share + recurrent @ h, 4)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), Turns(h, c, jnp.concatenate([i, f, g, o]))

    return jax.lax.scan(turn, (still, still), shares)[1]


@jax.custom_vjp
def _said(turns: Turns, recurrent, gates):
    """`turns.h` as a function of the gates before they open or shut, whose value is not needed and never computed."""
    return turns.h


def _back(kept, slope):
    """The loop back through time: slopes in what is said, to slopes in the gates."""
    (_, c, gates), recurrent = kept
    i, f, g, o = jnp.split(gates, 4, axis=1)
    before = _before(c)
    level = jnp.tanh(c)
    factors = g * i * (1 - i), before * f * (1 - f), i * (1 - g**2), level * o * (1 - o)

    def turn(carry, sample):
        dh, dc = carry
        slope, through, f, factors = sample
        dh = slope + dh
        dc = dc + dh * through
        gates = jnp.concatenate([d * factor for d, factor in zip((dc, dc, dc, dh), factors, strict=True)])
        return (gates @ recurrent, dc * f), gates

    still = jnp.zeros_like(c[0])
    samples = slope, o * (1 - level**2), f, factors
    return None, None, jax.lax.scan(turn, (still, still), samples, reverse=True)[1]


def _before(values):
    """What was there before each turn; padding, unlike joining, leaves batches where they lie."""
    return jnp.pad(values[:-1], ((1, 0), (0, 0)))


_said.defvjp(lambda turns, recurrent, gates: (turns.h, (turns, recurrent)), _back)


class LSTM(AbstractForecaster):
    """Layers of cells read a window of scaled states, inputs and parameters; a linear map gives the next state.

    Free-running it reads its own answers. It knows only the time step of its training part, and needs a window of
    the true motion to begin with: those samples come back as they were.
    """

    layers: tuple[Layer, ...]
    readout: Float[Array, "state width"]
    bias: Float[Array, " state"]
    states: Scaler
    external: Scaler
    window: int = eqx.field(static=True)
    coordinates: int = eqx.field(static=True)

    @classmethod
    def untrained(
        cls,
        columns: Columns,
        *,
        width: int,
        depth: int,
        window: int,
        states: Scaler | None = None,
        external: Scaler | None = None,
        key: PRNGKeyArray,
    ) -> "LSTM":
        """A model with fresh weights."""
        n, m = len(columns.state), len(columns.external)
        *keys, first, second = jax.random.split(key, depth + 2)
        layers = tuple(Layer.untrained(n + m if k == 0 else width, width, key) for k, key in enumerate(keys))
        readout, bias = _uniform(first, (n, width), width), _uniform(second, (n,), width)
        states, external = states or Scaler.identity(n), external or Scaler.identity(m)
        return cls(layers, readout, bias, states, external, window, len(columns.coordinates))

    @property
    def needs(self):
        return self.window

    def shown(self, x: State, u: Float[Array, "samples external"] | None = None) -> Float[Array, "samples features"]:
        """What the first layer sees of each sample."""
        states = jax.vmap(self.states.standardise)(jnp.concatenate([x.q, x.v], axis=-1))
        return states if u is None else jnp.concatenate([states, jax.vmap(self.external.standardise)(u)], axis=-1)

    def following(self, window: Float[Array, "window features"]) -> Float[Array, " state"]:
        """The scaled state after a window."""
        for layer in self.layers:
            window = layer(window)
        return self.readout @ window[-1] + self.bias

    def predict(self, past: Trajectory, ts, control=None):
        if len(past) < self.window:
            raise InputError(
                f"this lstm needs {self.window} samples of the past to begin with, got {len(past)}: give a longer start"
            )
        kept = min(self.window, ts.shape[0])  # of the answer that repeats the past
        past = past[: self.window]
        kind = self.readout.dtype
        u = None if control is None else jax.vmap(control)(ts)
        seen = self.shown(past.x, None if control is None else jax.vmap(control)(past.ts)).astype(kind)

        def advance(seen, u):
            state = self.following(seen)
            row = state if u is None else jnp.concatenate([state, self.external.standardise(u).astype(kind)])
            return jnp.concatenate([seen[1:], row[None]]), self.states.restore(state)

        later = None if u is None else u[kept:]
        _, states = jax.lax.scan(advance, seen, later, length=ts.shape[0] - kept)
        n, before = self.coordinates, past[:kept].x
        states = states.astype(before.q.dtype)
        return State(jnp.concatenate([before.q, states[:, :n]]), jnp.concatenate([before.v, states[:, n:]]))


def _uniform(key, shape, width):
    return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0) / jnp.sqrt(width)
