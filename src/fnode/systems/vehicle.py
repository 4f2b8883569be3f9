"""A vehicle with throttle and steering whose nine parameters are inputs that do not change."""

from typing import ClassVar

import jax.numpy as jnp

from fnode.systems._base import AbstractFirstOrder, Case, Parameter, Protocol
from fnode.systems.sincos import sincos
from fnode.trajectory import Column, Columns

PARAMETERS = (
    Column("l", "m"),
    Column("beta"),
    Column("gamma"),
    Column("I_wheel", "kg m²"),
    Column("R_wheel", "m"),
    Column("c0", "N m"),
    Column("c1", "N m s"),
    Column("tau0", "N m"),
    Column("omega0", "rad/s"),
)
RANGES = {
    "l": (2.7, 2.9),
    "beta": (0.60, 0.75),
    "gamma": (0.15, 0.25),
    "I_wheel": (0.9, 1.3),
    "R_wheel": (0.32, 0.35),
    "c0": (0.015, 0.025),
    "c1": (0.025, 0.045),
    "tau0": (250.0, 350.0),
    "omega0": (1200.0, 1500.0),
}
# The published test cases, in the order of `PARAMETERS`: two corners of the grid, two points inside it and not on it.
TESTS = {
    "1": tuple(low for low, _ in RANGES.values()),
    "2": tuple(high for _, high in RANGES.values()),
    "3": (2.726, 0.6405, 0.163, 0.952, 0.3281, 0.0177, 0.0276, 277.0, 1239.0),
    "4": (2.846, 0.7305, 0.223, 1.192, 0.3461, 0.0237, 0.0396, 337.0, 1419.0),
}
ON_THE_GRID = ("1", "2")


class Vehicle(AbstractFirstOrder):
    """The paper's vehicle of four states: it rolls where it heads, and one motor drives its wheels.

    `torque_factor` is the 2 that the paper prints before the motor torque; its released code has 1.
    """

    torque_factor: Parameter = 2.0

    columns: ClassVar[Columns] = Columns(
        (Column("x", "m"), Column("y", "m"), Column("theta", "rad", angle=True), Column("v", "m/s")),
        inputs=(Column("alpha"), Column("delta", "rad")),
        parameters=PARAMETERS,
        first_order=True,
    )
    protocol: ClassVar[Protocol] = Protocol(q=(0.0, 0.0, 0.0, 0.0), v=(), train=1500, test=500)
    data_solver: ClassVar[str | None] = "rk4"
    ranges: ClassVar[dict[str, tuple[float, float]]] = RANGES
    place: ClassVar[tuple[str, ...]] = ("x", "y")

    def inputs(self, t):
        """Throttle and steering: the throttle opens to one half within 4 s; after 5 s it falls off slowly while the
        steering swings. The paper does not print them; they are those of the code its authors released."""
        later = t - 5.0
        opening = 0.25 * (1 - jnp.cos(jnp.pi * jnp.minimum(t / 4, 1.0)))
        alpha = jnp.where(later <= 0, opening, 0.5 * jnp.exp(-later / 10))
        return alpha, jnp.where(later <= 0, 0.0, 0.4 * jnp.sin(2 * jnp.pi * 0.3 * later))

    def constants(self, parameters):
        wheelbase, beta, gamma, inertia, radius, c0, c1, tau0, omega0 = parameters
        gain = self.torque_factor * gamma / inertia * radius
        return beta, 1 / wheelbase, 1 / (radius * gamma), gain, c0, c1, tau0, tau0 / omega0

    def rates(self, q, inputs, constants):
        (_, _, theta, v), (alpha, delta) = q, inputs
        beta, curvature, gearing, gain, c0, c1, tau0, slope = constants
        omega = v * gearing
        torque = alpha * (tau0 - slope * omega) - c1 * omega - c0
        sine, cosine = sincos(theta)
        rise, run = sincos(beta * delta)
        return v * cosine, v * sine, v * curvature * (rise / run), gain * torque

    @property
    def conservative(self):
        return False

    @property
    def cases(self):
        train, test = self.protocol.train, self.protocol.test
        return tuple(
            Case(name, *((train, test) if name in ON_THE_GRID else (0, train + test)), parameters)
            for name, parameters in TESTS.items()
        )
