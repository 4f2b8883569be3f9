"""Inputs as functions of time, with an explicit hold between samples.

Any function of time that returns an array can serve as a control; these classes turn samples into one. Before the
first and after the last sample a signal keeps the nearest sample's value, unless `outside` names another one.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
import scipy.interpolate
from jaxtyping import Array, Float

from fnode.errors import InputError


class AbstractSignal(eqx.Module):
    """An input signal: time in, input values out."""

    @abc.abstractmethod
    def __call__(self, t) -> Float[Array, " inputs"]:
        """The input at time `t`."""


class Constant(AbstractSignal):
    """An input that does not change; parameters are such inputs."""

    value: Float[Array, " inputs"]

    def __call__(self, t):
        return self.value


class AbstractSampled(AbstractSignal):
    """A signal known at increasing times."""

    ts: eqx.AbstractVar[Float[Array, " samples"]]
    us: eqx.AbstractVar[Float[Array, "samples inputs"]]
    outside: eqx.AbstractVar[float | None]

    def __check_init__(self):
        if self.ts.shape[0] != self.us.shape[0] or self.ts.shape[0] < 1:
            raise InputError(
                f"a sampled signal needs one value per time: got {self.us.shape[0]} values, {self.ts.shape[0]} times"
            )

    @abc.abstractmethod
    def between(self, t, k) -> Float[Array, " inputs"]:
        """The value at `t`, which lies in the interval that begins with sample `k`."""

    def __call__(self, t):
        clipped = jnp.clip(t, self.ts[0], self.ts[-1])
        k = jnp.clip(jnp.searchsorted(self.ts, clipped, side="right") - 1, 0, self.ts.shape[0] - 1)
        value = self.between(clipped, k)
        return value if self.outside is None else jnp.where(t == clipped, value, self.outside)


class ZeroOrderHold(AbstractSampled):
    """Each sample holds until the next one, as a digital controller's output does."""

    ts: Float[Array, " samples"]
    us: Float[Array, "samples inputs"]
    outside: float | None = eqx.field(static=True, default=None, kw_only=True)

    def between(self, t, k):
        return self.us[k]


class LinearHold(AbstractSampled):
    """Straight lines between samples."""

    ts: Float[Array, " samples"]
    us: Float[Array, "samples inputs"]
    outside: float | None = eqx.field(static=True, default=None, kw_only=True)

    def between(self, t, k):
        after = jnp.minimum(k + 1, self.ts.shape[0] - 1)
        width = jnp.where(after == k, 1.0, self.ts[after] - self.ts[k])
        return self.us[k] + (t - self.ts[k]) / width * (self.us[after] - self.us[k])


class CubicHold(AbstractSampled):
    """A twice differentiable cubic spline through the samples (not-a-knot ends)."""

    ts: Float[Array, " samples"]
    us: Float[Array, "samples inputs"]
    outside: float | None
    coefficients: Float[Array, "4 intervals inputs"]

    def __init__(self, ts, us, *, outside: float | None = None):
        if len(ts) < 2:
            raise InputError(f"a cubic hold needs at least 2 samples, got {len(ts)}: use a zero-order hold")
        self.ts, self.us, self.outside = ts, us, outside
        self.coefficients = jnp.asarray(scipy.interpolate.CubicSpline(ts, us).c)

    def between(self, t, k):
        interval = jnp.minimum(k, self.coefficients.shape[1] - 1)
        return jnp.polyval(self.coefficients[:, interval], t - self.ts[interval])


class SideBySide(AbstractSignal):
    """Several signals as one: their values, one after the other."""

    parts: tuple[AbstractSignal, ...]

    def __call__(self, t):
        return jnp.concatenate([part(t) for part in self.parts])


HOLDS = {"zero": ZeroOrderHold, "linear": LinearHold, "cubic": CubicHold}
