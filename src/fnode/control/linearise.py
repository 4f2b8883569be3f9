"""Linear models of any field, continuous by autodiff and discrete over one control interval.

States are flat arrays here, coordinates then velocities, as in `Trajectory.states`.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float

from fnode.errors import choose
from fnode.field import AbstractField
from fnode.metrics import flat
from fnode.solvers import RK4
from fnode.trajectory import State

Scheme = Literal["euler", "exact", "rk4"]
"""How a continuous model becomes a discrete one: forward Euler (the paper's), the matrix exponential of its
linearisation, or the linearisation of one Runge-Kutta step of the field itself."""


class Affine(NamedTuple):
    """A linear model with its constant term: `a z + b u + c`, the rate of a state or the state one interval later."""

    a: Float[Array | np.ndarray, "*stages states states"]
    b: Float[Array | np.ndarray, "*stages states inputs"]
    c: Float[Array | np.ndarray, "*stages states"]


@eqx.filter_jit
def linearise(field: AbstractField, x: State, u: Float[Array, " inputs"]) -> Affine:
    """The tangent of a field at a state and an input: `dz/dt = a z + b u + c` with `a = df/dz`, `b = df/du`.

    The constant term `c = f(x, u) - a x - b u` is what the field does there beyond the two products; it vanishes at
    an equilibrium in the origin.
    """
    coordinates = x.q.shape[-1]

    def rate(z, u):
        return flat(field(0.0, structured(z, coordinates), u))

    return tangent(rate, flat(x), jnp.asarray(u))


def tangent(function: Callable, z: Float[Array, " states"], u: Float[Array, " inputs"]) -> Affine:
    """First-order expansion of a function of state and input."""

    def twice(z, u):
        value = function(z, u)
        return value, value

    (a, b), value = jax.jacfwd(twice, (0, 1), has_aux=True)(z, u)
    return Affine(a, b, value - a @ z - b @ u)


def discretise(model: Affine, dt: float, *, scheme: Scheme = "exact") -> Affine:
    """The model over an interval `dt` with the input held: exactly, or by forward Euler as in the paper.

    Exact means `exp(dt [[a, b, c], [0, 0, 0]])`, whose upper rows are the three parts of the discrete model.
    """
    n, m = model.b.shape
    if scheme == "euler":
        return Affine(jnp.eye(n) + dt * model.a, dt * model.b, dt * model.c)
    above = jnp.concatenate([model.a, model.b, model.c[:, None]], axis=1)
    held = jax.scipy.linalg.expm(dt * jnp.concatenate([above, jnp.zeros((m + 1, n + m + 1))]))
    return Affine(held[:n, :n], held[:n, n : n + m], held[:n, -1])


def interval_model(
    field: AbstractField, dt: float, *, scheme: Scheme, coordinates: int | None = None
) -> Callable[..., Affine]:
    """A function of a flat state and an input: the discrete linear model of the field there.

    `coordinates` says how many of the states are coordinates: half of them, unless given.
    """
    choose("discretisation", scheme, get_args(Scheme))

    def rate(z, u):
        return flat(field(0.0, structured(z, coordinates), u))

    def step(z, u):
        return flat(RK4.step(field, 0.0, structured(z, coordinates), dt, lambda t: u))

    if scheme == "rk4":
        return lambda z, u: tangent(step, z, u)
    return lambda z, u: discretise(tangent(rate, z, u), dt, scheme=scheme)


def structured(z: Float[Array, "*batch states"], coordinates: int | None = None) -> State:
    """A flat state as coordinates and velocities."""
    n = z.shape[-1] // 2 if coordinates is None else coordinates
    return State(z[..., :n], z[..., n:])
