"""Explicit Runge-Kutta schemes: each is a table of coefficients for one step function."""

import equinox as eqx
import jax

from fnode.solvers._base import AbstractFixedStep, advance


class RungeKutta(AbstractFixedStep):
    """An explicit scheme given by its Butcher table.

    Stage `i` sees the state advanced by `stages[i]` times the slopes before it, at the time its row adds up to; the
    step is the sum of all slopes times `weights`.
    """

    stages: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    weights: tuple[float, ...] = eqx.field(static=True)

    def step(self, field, t, x, dt, control):
        slopes = []
        for row in self.stages:
            moment = t + sum(row) * dt
            stage = advance(x, dt, _combine(row, slopes)) if any(row) else x
            slopes.append(field(moment, stage, control(moment)))
        return advance(x, dt, _combine(self.weights, slopes))


def _combine(weights, slopes):
    used = [(weight, slope) for weight, slope in zip(weights, slopes, strict=True) if weight]
    return jax.tree.map(
        lambda *leaves: sum(w * leaf for (w, _), leaf in zip(used, leaves, strict=True)), *(s for _, s in used)
    )


EULER = RungeKutta(stages=((),), weights=(1.0,))
MIDPOINT = RungeKutta(stages=((), (0.5,)), weights=(0.0, 1.0))
RK4 = RungeKutta(stages=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6))
