"""A crank, a connecting rod and a slider held by a spring: the paper's constrained mechanism, corrected.

The published equations differ from this system in signs and indices: here the damper between crank and rod acts on
both with opposite signs, weight acts on all bodies, friction opposes the slider's motion, and the multiplier it uses is
the one it causes.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from fnode.constraints import Holonomic, Partition, complete
from fnode.mechanisms import GROUND, Body, Friction, Mechanism, Prismatic, Revolute, Spring, Torque, Torsion
from fnode.systems._base import AbstractMechanical, Case, Protocol
from fnode.trajectory import Column, Columns, State, Trajectory

CRANK_ANGLE = (Column("theta1", "rad", angle=True),)
ALL_COORDINATES = tuple(
    column
    for k in (1, 2, 3)
    for column in (Column(f"x{k}", "m"), Column(f"y{k}", "m"), Column(f"theta{k}", "rad", angle=True))
)
TRAINING_MU = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
TEST_MU = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55)


class AbstractSliderCrank(AbstractMechanical):
    """Its state is the crank angle and rate; the nine coordinates of the three bodies follow from them.

    `r` and `l` are half the lengths of crank and rod. Dampers: `c01` between ground and crank, `c12` between crank and
    rod, `c` between ground and slider. The spring pulls the slider towards `rest`. Friction on the slider is
    `-mu |lambda| tanh(x3'/v_s)` with the multiplier of its guide.
    """

    r: float | Array = 1.0
    l: float | Array = 2.0  # noqa: E741
    masses: tuple[float | Array, float | Array, float | Array] = (1.0, 1.0, 1.0)
    inertias: tuple[float | Array, float | Array, float | Array] = (0.1, 0.1, 0.1)
    gravity: float | Array = 9.81
    c01: float | Array = 0.0
    c12: float | Array = 0.05
    c: float | Array = 0.0
    k: float | Array = 1.0
    rest: float | Array = 6.5
    v_s: float | Array = 1e-3
    mu: float | Array | None = None

    @property
    def mechanism(self) -> Mechanism:
        """The same system as bodies, joints and forces, in the straight pose it starts from."""
        r, l = self.r, self.l  # noqa: E741
        names = ("crank", "rod", "slider")
        starts = ((r, 0.0, 0.0), (2 * r + l, 0.0, 0.0), (2 * r + 2 * l, 0.0, 0.0))
        driven = {column.name for column in self.columns.external}
        torque = Torque((GROUND, "crank"), input="torque")
        mu = 0.0 if self.mu is None else self.mu
        friction = Friction("guide", mu, self.v_s, input="mu" if "mu" in driven else None)
        return Mechanism(
            bodies=tuple(Body(*body) for body in zip(names, self.masses, self.inertias, starts, strict=True)),
            joints=(
                Revolute("bearing", (GROUND, "crank"), ((0.0, 0.0), (-r, 0.0))),
                Revolute("crank pin", ("crank", "rod"), ((r, 0.0), (-l, 0.0))),
                Revolute("slider pin", ("rod", "slider"), ((l, 0.0), (0.0, 0.0))),
                Prismatic("guide", (GROUND, "slider")),
            ),
            forces=(
                Torsion((GROUND, "crank"), damping=self.c01),
                Torsion(("crank", "rod"), damping=self.c12),
                Spring((GROUND, "slider"), stiffness=self.k, rest=self.rest, damping=self.c, axis=(1.0, 0.0)),
                *((torque,) if "torque" in driven else ()),
            ),
            friction=(friction,) if "mu" in driven or _may_differ_from_zero(mu) else (),
            gravity=self.gravity,
            independent=("theta_crank",),
        )

    @property
    def constraints(self) -> Holonomic:
        return self.mechanism.constraints

    @property
    def partition(self) -> Partition:
        """The crank angle is independent: with a rod longer than the crank it never meets a dead centre."""
        return Partition(jnp.array([2]), jnp.array([0, 1, 3, 4, 5, 6, 7, 8]), jnp.arange(8))

    @property
    def full_columns(self) -> Columns:
        """The nine coordinates of the paper, with the same inputs and parameters."""
        return Columns(ALL_COORDINATES, inputs=self.columns.inputs, parameters=self.columns.parameters)

    def pose(self, q: Float[Array, "1"]) -> Float[Array, "9"]:
        """All coordinates at a crank angle, on the branch with the slider ahead of the crank."""
        theta1 = q[0]
        theta2 = -jnp.arcsin(self.r * jnp.sin(theta1) / self.l)
        pin = 2 * self.r * jnp.stack([jnp.cos(theta1), jnp.sin(theta1)])
        half_rod = self.l * jnp.stack([jnp.cos(theta2), jnp.sin(theta2)])
        bodies = ((pin / 2, theta1), (pin + half_rod, theta2), (pin + 2 * half_rod, 0.0))
        return jnp.concatenate([jnp.append(place, angle) for place, angle in bodies])

    def full(self, x: State) -> State:
        """All coordinates and velocities of a minimal state."""
        return State(*jax.jvp(self.pose, (x.q,), (x.v,)))

    def acceleration(self, t, x, u=None):
        return self.mechanism.acceleration(t, self.full(x), u)[2:3]

    def kinetic(self, q, v):
        full = self.full(State(q, v))
        return self.mechanism.kinetic(full.q, full.v)

    def potential(self, q):
        return self.mechanism.potential(self.pose(q))

    def force(self, q, v, u=None):
        mechanism, full = self.mechanism, self.full(State(q, v))
        friction = mechanism.dynamics(0.0, full, u)[2]
        other = mechanism.applied(0.0, full, u) + jax.grad(mechanism.potential)(full.q)
        return jax.jacfwd(self.pose)(q).T @ (friction + other)

    @property
    def conservative(self):
        return self.mechanism.conservative

    def complete(self, trajectory: Trajectory) -> Trajectory:
        """The nine coordinates, their velocities and (where the crank's is known) accelerations, by Newton's method."""
        guess = self.pose(trajectory.x.q[0])
        return complete(self.constraints, self.partition, trajectory, guess, columns=self.full_columns)


class SliderCrank(AbstractSliderCrank):
    """Without friction, unless `mu` is set: 15 s to learn from and 30 s to foretell."""

    columns: ClassVar[Columns] = Columns(CRANK_ANGLE)
    protocol: ClassVar[Protocol] = Protocol(q=(0.0,), v=(0.0,), train=1500, test=3000)


class SliderCrankFriction(AbstractSliderCrank):
    """The friction coefficient is a parameter, an input that does not change; without one the field `mu` counts.

    The experiment learns from seven coefficients and is tested between them; with `mu` set it is one motion.
    """

    columns: ClassVar[Columns] = Columns(CRANK_ANGLE, parameters=(Column("mu"),))
    protocol: ClassVar[Protocol] = Protocol(q=(0.0,), v=(0.0,), train=2000, test=0)

    @property
    def cases(self):
        if self.mu is not None:
            return (Case(f"mu={self.mu:g}", 2000, 0, (float(self.mu),)),)
        learned = tuple(Case(f"mu={mu:g}", 2000, 0, (mu,)) for mu in TRAINING_MU)
        return learned + tuple(Case(f"mu={mu:g}", 0, 2000, (mu,)) for mu in TEST_MU)


class DrivenSliderCrank(AbstractSliderCrank):
    """With a torque on the crank as input."""

    columns: ClassVar[Columns] = Columns(CRANK_ANGLE, inputs=(Column("torque", "N m"),))
    protocol: ClassVar[Protocol] = Protocol(q=(0.0,), v=(0.0,), train=1500, test=3000)

    def control(self, parameters):
        return small_swing


def small_swing(t):
    """The torque on the crank in the code released with the paper."""
    return jnp.array([-0.002 * jnp.sin(2 * jnp.pi * t)])


def _may_differ_from_zero(value) -> bool:
    return isinstance(value, Tracer) or bool(np.any(np.asarray(value)))
