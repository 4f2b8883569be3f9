"""The slider-crank against golden values, a published solution, Lagrange's equation and its own energy."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fnode.errors import InputError
from fnode.mechanisms import Minimal, Projecting, simulate
from fnode.solvers import TIGHT, rollout
from fnode.systems.slider_crank import ALL_COORDINATES, DrivenSliderCrank, SliderCrank, SliderCrankFriction, small_swing
from fnode.trajectory import State, Trajectory

REFERENCE = Path(__file__).parents[2] / "shared" / "data" / "reference" / "slider_crank_constant_torque.csv"


def largest(values):
    return float(np.max(np.abs(values)))


# (mu, c12, torque in units of the released code's) -> time -> state, to six digits, from two derivations (constraint
# forces; Lagrange's equation in the crank angle) and two solvers.
GOLDEN = {
    (0.0, 0.05, 0.0): {0.75: (-1.160801, -1.727324), 1.5: (-2.492285, -1.266701), 3.0: (-0.550733, 1.814151)},
    (0.15, 0.05, 0.0): {0.75: (-1.088432, -1.480315), 1.5: (-2.029282, -0.768295), 3.0: (-1.172762, 0.733773)},
    (0.0, 0.05, 1.0): {1.5: (-2.492347, -1.266722)},
    (0.0, 0.0, 0.0): {1.5: (-2.510585, -1.266324)},
}


@pytest.fixture(scope="module")
def motions():
    """The four golden motions over 10 s, side by side."""

    def motion(mu, c12, torque):
        system = DrivenSliderCrank(mu=mu, c12=c12)
        start = system.protocol.start
        return rollout(system, start, 0.01 * jnp.arange(1001), control=lambda t: torque * small_swing(t), solver=TIGHT)

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(motion))(*jnp.array(list(GOLDEN)).T))


def test_golden_values(motions):
    for k, samples in enumerate(GOLDEN.values()):
        for t, state in samples.items():
            row = round(100 * t)
            assert largest(np.array([motions.q[k, row, 0], motions.v[k, row, 0]]) - np.array(state)) < 5e-6


def test_index_one_route_agrees_with_minimal_coordinates_under_friction(motions):
    system = SliderCrank(mu=0.15)
    full = simulate(system.mechanism, 0.01 * jnp.arange(151), route=Projecting())
    minimal = jax.tree.map(lambda leaf: leaf[1, :151], motions)
    assert largest(full.x.q - jax.jit(jax.vmap(system.pose))(minimal.q)) < 1e-8
    assert largest(full.x.v[:, 2:3] - minimal.v) < 1e-8


def test_without_damping_energy_is_conserved(motions):
    system = SliderCrank(c12=0.0)
    assert system.conservative
    assert not SliderCrank().conservative
    x = jax.tree.map(lambda leaf: leaf[3], motions)
    energy, kinetic = jax.jit(jax.vmap(lambda x: (system.energy(x), system.kinetic(x.q, x.v))))(x)
    assert largest(energy - energy[0]) < 1e-9 * float(kinetic.max())


def test_constant_torque_follows_the_published_solution():
    if not REFERENCE.exists():
        pytest.skip("the reference solutions are not here")
    t, theta, _ = np.loadtxt(REFERENCE, delimiter=",", skiprows=1).T
    inertias = tuple(m * length**2 / 12 for m, length in ((0.2, 0.1), (0.2, 0.3), (0.4, 0.1)))
    system = DrivenSliderCrank(r=0.05, l=0.15, masses=(0.2, 0.2, 0.4), inertias=inertias, gravity=0.0, c12=0.0, k=0.0)
    start = State(jnp.zeros(1), jnp.zeros(1))
    x = eqx.filter_jit(rollout)(
        system, start, jnp.asarray(t[t <= 1.0]), control=lambda t: jnp.array([0.1]), solver=TIGHT
    )
    assert largest(x.q[:, 0] - theta[t <= 1.0]) < 3e-5


def test_accelerations_obey_lagranges_equation():
    """In the one coordinate there is no multiplier: only friction, taken as a force, knows of the constraints."""
    system = SliderCrank(c01=0.3, c=0.2, mu=0.4)

    def residual(theta, omega):
        q, v = theta[None], omega[None]
        momentum = jax.grad(system.lagrangian, 1)
        inertia = jax.jacfwd(momentum, 1)(q, v)
        drift = jax.jacfwd(momentum, 0)(q, v) @ v
        a = system.acceleration(0.0, State(q, v))
        return inertia @ a + drift - jax.grad(system.lagrangian, 0)(q, v) - system.force(q, v)

    angles, rates = jnp.linspace(-4.0, 4.0, 9), jnp.linspace(-3.0, 2.0, 9)
    assert largest(jax.jit(jax.vmap(residual))(angles, rates)) < 1e-11


def test_minimal_coordinates_move_as_the_multipliers_say():
    system = DrivenSliderCrank(c01=0.3, c=0.2)

    def gap(theta, omega, torque):
        x, u = State(theta[None], omega[None]), torque[None]
        minimal = Minimal(system.mechanism, system.pose)
        return minimal.acceleration(0.0, x, u) - system.acceleration(0.0, x, u)

    states = (jnp.asarray(values) for values in np.linspace([-4.0, -3.0, 2.0], [4.0, 2.0, -1.0], 9).T)
    assert largest(jax.jit(jax.vmap(gap))(*states)) < 1e-11
    with pytest.raises(InputError, match="friction on 'guide'"):
        Minimal(SliderCrank(mu=0.2).mechanism, system.pose)


def test_completion_of_the_whole_experiment():
    system = SliderCrankFriction(mu=0.3)
    (case,) = system.cases
    ts = system.protocol.dt * jnp.arange(case.train)
    theta = 2.0 * jnp.sin(3.0 * ts)
    minimal = Trajectory(
        ts, State(theta[:, None], 6.0 * jnp.cos(3.0 * ts)[:, None]), a=-9.0 * theta[:, None], columns=system.columns
    )
    full = system.complete(minimal)
    assert full.columns.coordinates == ALL_COORDINATES
    assert largest(full.x.q - jax.jit(jax.vmap(system.pose))(minimal.x.q)) < 1e-12
    levels = jax.jit(jax.vmap(system.constraints.residuals))(full.x.q, full.x.v, full.a)
    assert max(map(largest, levels)) < 1e-11
    assert largest(full.x.q[:, 2:3] - minimal.x.q) + largest(full.a[:, 2:3] - minimal.a) == 0


def test_the_experiment_is_tested_between_the_coefficients_it_learns():
    cases = SliderCrankFriction().cases
    learned = [case.parameters[0] for case in cases if case.train]
    tested = [case.parameters[0] for case in cases if case.test]
    assert len(learned) == 7
    assert len(tested) == 6
    assert not set(learned) & set(tested)
    assert all(case.train + case.test == 2000 for case in cases)


def test_a_coefficient_is_the_same_as_field_and_as_parameter():
    x = State(jnp.array([-1.0]), jnp.array([-0.8]))
    acceleration = eqx.filter_jit(lambda system, u: system.acceleration(0.0, x, u))
    as_field = acceleration(SliderCrankFriction(mu=0.3), None)
    assert largest(as_field - acceleration(SliderCrankFriction(), jnp.array([0.3]))) < 1e-13
    assert largest(as_field - acceleration(SliderCrank(mu=0.3), None)) < 1e-13
