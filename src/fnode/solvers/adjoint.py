"""Fixed steps through diffrax, for the sake of its ways to differentiate a solution by what the field depends on."""

from typing import ClassVar, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fnode.solvers._base import AbstractSolver
from fnode.solvers.runge_kutta import RK4
from fnode.trajectory import State

CONSTANT = diffrax.ConstantStepSize()
ADJOINTS = {
    "direct": lambda scheme: diffrax.DirectAdjoint(),
    "recursive_checkpoint": lambda scheme: diffrax.RecursiveCheckpointAdjoint(),
    "backsolve": lambda scheme: diffrax.BacksolveAdjoint(solver=scheme),
}


class _ClassicRK4(diffrax.AbstractERK):
    """The classic scheme, which diffrax does not bring along; without error estimate it takes the steps it is given."""

    tableau: ClassVar[diffrax.ButcherTableau | diffrax.MultiButcherTableau] = diffrax.ButcherTableau(
        c=np.array(RK4.ahead[1:]),
        b_sol=np.array(RK4.weights),
        b_error=np.zeros(len(RK4.weights)),
        a_lower=tuple(np.append(np.zeros(k), ahead) for k, ahead in enumerate(RK4.ahead[1:])),
    )
    interpolation_cls: ClassVar = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        return 4


class AdjointRK4(AbstractSolver):
    """RK4 with one step per interval of `ts`, and a gradient by one of `ADJOINTS`.

    `direct` and `recursive_checkpoint` differentiate the steps themselves; `backsolve` solves the adjoint equation of
    the exact motion backwards in time, so its gradient agrees with theirs only to the order of the scheme.
    """

    adjoint: str = eqx.field(static=True)

    def solve(self, field, x0, ts, control) -> State:
        arrays, rest = eqx.partition((field, control), eqx.is_array)
        scheme = _ClassicRK4()

        def rate(t, x, arrays):
            field, control = eqx.combine(arrays, rest)
            return field(t, x, control(t))

        def solved(x0, ts, controller, dt0):
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(rate),
                scheme,
                ts[0],
                ts[-1],
                dt0=dt0,
                y0=x0,
                args=arrays,
                saveat=diffrax.SaveAt(ts=ts),
                stepsize_controller=controller,
                adjoint=ADJOINTS[self.adjoint](scheme),
                max_steps=ts.shape[0] + 2,
            )
            return cast(State, solution.ys)

        if self.adjoint != "backsolve":
            return solved(x0, ts, diffrax.StepTo(ts), None)

        def advance(x, interval):  # going back, diffrax solves interval by interval: so it is told to step there too
            following = jax.tree.map(lambda leaf: leaf[-1], solved(x, interval, CONSTANT, interval[1] - interval[0]))
            return following, following

        _, later = jax.lax.scan(advance, x0, jnp.stack([ts[:-1], ts[1:]], axis=1))
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), x0, later)
