"""What training makes small, for one sample; `fit` averages over samples."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fnode.field import AbstractField
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


class Huber(eqx.Module):
    """Quadratic near zero, linear beyond `delta`: outliers among the labels count less."""

    delta: float = 1.0

    def __call__(self, residual):
        size = jnp.abs(residual)
        return jnp.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))


class DerivativeLoss(eqx.Module):
    """Error of the field itself: no integrator in the loop (FNODE, HNN, LNN)."""

    penalty: SquaredError | Huber = SquaredError()

    def __call__(self, field: AbstractField, sample: Labelled) -> Float[Array, ""]:
        rate = field(sample.t, sample.x, sample.u)
        residual = (rate.q if sample.x.v.shape[-1] == 0 else rate.v) - sample.rate
        cost = self.penalty(residual)
        return jnp.mean(cost if sample.weight is None else sample.weight * cost)
