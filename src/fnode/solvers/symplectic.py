"""Symplectic schemes: each is a tuple of weights for one kick-drift-kick loop."""

import equinox as eqx

from fnode.errors import InputError
from fnode.field import AbstractAcceleration
from fnode.solvers._base import AbstractFixedStep
from fnode.trajectory import State


class KickDriftKick(AbstractFixedStep):
    """Half kick, drift, half kick, once per weight.

    The closing kick asks for the acceleration at the velocity it is about to reach. For forces of position alone that
    changes nothing; when accelerations depend on velocities it is an implicit equation, and `closings` fixed-point
    rounds from an extrapolated velocity solve it as far as the order needs: one for order 2, three for order 4 (a
    composition keeps its order only if each kick-drift-kick is symmetric in time).
    """

    weights: tuple[float, ...] = eqx.field(static=True)
    closings: int = eqx.field(static=True)

    def step(self, field, t, x, dt, control):
        if not isinstance(field, AbstractAcceleration):
            raise InputError("symplectic schemes need a field of accelerations (q'' = a): use rk4 for this one")
        for weight in self.weights:
            h = weight * dt
            opening = field.acceleration(t, x, control(t))
            half = x.v + h / 2 * opening
            q, v = x.q + h * half, half + h / 2 * opening
            for _ in range(self.closings):
                v = half + h / 2 * field.acceleration(t + h, State(q, v), control(t + h))
            t, x = t + h, State(q, v)
        return x


CUBE_ROOT = 2 ** (1 / 3)
STORMER_VERLET = KickDriftKick(weights=(1.0,), closings=1)
YOSHIDA4 = KickDriftKick(weights=(1 / (2 - CUBE_ROOT), -CUBE_ROOT / (2 - CUBE_ROOT), 1 / (2 - CUBE_ROOT)), closings=3)
