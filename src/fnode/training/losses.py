"""What training makes small, for one sample; `fit` averages over samples."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.field import AbstractField
from fnode.models import Rates, learned_rates
from fnode.trajectory import State


class Labelled(eqx.Module):
    """States with the rates that differentiation gave them: accelerations, or first derivatives of `q` where the
    system is of first order. One sample, or many along a leading axis."""

    t: Float[Array, "*batch"]
    x: State
    u: Float[Array, "*batch external"] | None
    rate: Float[Array, "*batch channels"]
    weight: Float[Array, "*batch channels"] | None = None


class SquaredError(eqx.Module):
    """`r^2`: the paper's Eq. for the loss."""

    def __call__(self, residual):
        return residual**2

    def weight(self, residual):
        """The factor that makes a square of the penalty, to first order: `penalty'(r) / (2 r)`."""
        return jnp.ones_like(residual)


class Huber(eqx.Module):
    """Quadratic near zero, linear beyond `delta`: outliers among the labels count less."""

    delta: float = 1.0

    def __call__(self, residual):
        size = jnp.abs(residual)
        return jnp.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))

    def weight(self, residual):
        """The factor that makes a square of the penalty, to first order: `penalty'(r) / (2 r)`."""
        return 0.5 * jnp.minimum(1.0, self.delta / jnp.maximum(jnp.abs(residual), 1e-300))


Penalty = SquaredError | Huber


def derivative_residual(field: AbstractField, sample: Labelled) -> Float[Array, " channels"]:
    """Error of the field itself: no integrator in the loop (FNODE, HNN, LNN)."""
    rate = field(sample.t, sample.x, sample.u)
    return (rate.q if sample.x.v.shape[-1] == 0 else rate.v) - sample.rate


def weighted_residual(field: AbstractField, sample: Labelled) -> Float[Array, " channels"]:
    """The error of the field in units of what each label is worth."""
    residual = derivative_residual(field, sample)
    return residual if sample.weight is None else jnp.sqrt(sample.weight) * residual


class DerivativeLoss(eqx.Module):
    """The penalty on the error of the field itself, averaged over its channels."""

    penalty: Penalty = SquaredError()

    def __call__(self, field: AbstractField, sample: Labelled) -> Float[Array, ""]:
        cost = self.penalty(derivative_residual(field, sample))
        return jnp.mean(cost if sample.weight is None else sample.weight * cost)


class RateLoss(eqx.Module):
    """The penalty on the learned rates of a system of first order, each in units of its spread."""

    penalty: Penalty = SquaredError()

    def __call__(self, field: Rates, sample: Labelled) -> Float[Array, ""]:
        wanted = field.targets.standardise(learned_rates(sample.rate, field.kinematics))
        return jnp.mean(self.penalty(field.scaled(sample.x, sample.u) - wanted))


class HamiltonLoss(eqx.Module):
    """The squared error of both rates, `q'` against the measured velocities and `v'` against the labels (HNN)."""

    def __call__(self, field: AbstractField, sample: Labelled) -> Float[Array, ""]:
        rate = field(sample.t, sample.x, sample.u)
        pushed = (rate.v - sample.rate) ** 2
        return jnp.mean((rate.q - sample.x.v) ** 2) + jnp.mean(
            pushed if sample.weight is None else sample.weight * pushed
        )
