"""Explicit Runge-Kutta schemes: each is a table of coefficients for one step function."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from fnode.solvers._base import AbstractFixedStep, advance

LARGE = 60  # operations of a field: networks have fewer, energies that are differentiated have more


class RungeKutta(AbstractFixedStep):
    """An explicit scheme whose stages follow one another.

    Stage `i` looks `ahead[i]` of the step along the slope that the stage before it found, the first one not at all; the
    step is the sum of all slopes times `weights`.
    """

    ahead: tuple[float, ...] = eqx.field(static=True)
    weights: tuple[float, ...] = eqx.field(static=True)

    def step(self, field, t, x, dt, control):
        def slope_at(ahead, place):
            moment = t + ahead * dt
            return field(moment, place, control(moment))

        def stage(before, row):
            slope, total = before
            ahead, weight = row
            slope = slope_at(ahead, advance(x, ahead * dt, slope))
            return (slope, advance(total, weight, slope)), None

        if _is_large(field, t, x, control(t)):  # one copy of it in the program instead of one per stage
            rows = jnp.array([self.ahead, self.weights], jnp.result_type(*jax.tree.leaves(x))).T
            (_, total), _ = jax.lax.scan(stage, jax.tree.map(jnp.zeros_like, (x, x)), rows)
        else:
            slope = slope_at(0.0, x)
            total = jax.tree.map(lambda leaf: self.weights[0] * leaf, slope)
            for row in zip(self.ahead[1:], self.weights[1:], strict=True):
                (slope, total), _ = stage((slope, total), row)
        return advance(x, dt, total)


def _is_large(field: Callable, t, x: PyTree, u) -> bool:
    """Whether a field takes longer to compile than a loop around it takes to run."""
    return len(jax.make_jaxpr(lambda t, x, u: field(t, x, u))(t, x, u).eqns) > LARGE


EULER = RungeKutta(ahead=(0.0,), weights=(1.0,))
MIDPOINT = RungeKutta(ahead=(0.0, 0.5), weights=(0.0, 1.0))
RK4 = RungeKutta(ahead=(0.0, 0.5, 0.5, 1.0), weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6))
