"""Step-size control, non-stiff and stiff, from diffrax."""

from typing import cast

import diffrax
import equinox as eqx
import jax

from fnode.solvers._base import AbstractSolver
from fnode.trajectory import State

NON_STIFF = ("Bosh3", "Tsit5", "Dopri5", "Dopri8")
STIFF = ("Kvaerno3", "Kvaerno4", "Kvaerno5")


class Adaptive(AbstractSolver):
    """A diffrax scheme by its name there, with error control.

    Steps end on every sample, so that no interpolation error enters the data.
    """

    scheme: str = eqx.field(static=True)
    rtol: float = eqx.field(static=True, default=1e-10)
    atol: float = eqx.field(static=True, default=1e-12)
    max_steps: int = eqx.field(static=True, default=1_000_000)

    def solve(self, field, x0, ts, control) -> State:
        if ts.shape[0] == 1:
            return jax.tree.map(lambda leaf: leaf[None], x0)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, x, _: field(t, x, control(t))),
            getattr(diffrax, self.scheme)(),
            ts[0],
            ts[-1],
            dt0=None,
            y0=x0,
            saveat=diffrax.SaveAt(ts=ts),
            stepsize_controller=diffrax.ClipStepSizeController(
                diffrax.PIDController(rtol=self.rtol, atol=self.atol), step_ts=ts
            ),
            max_steps=self.max_steps,
            throw=False,
        )
        # Under jit and vmap a solve that could not go on is not an exception: samples it did not reach are not finite.
        return cast(State, solution.ys)


TIGHT = Adaptive("Dopri8", rtol=1e-13, atol=1e-13)
