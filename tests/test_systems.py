"""Laws of every built-in system: Euler-Lagrange, energy, exact motion, the paper's own equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fnode.errors import InputError
from fnode.solvers import TIGHT, rollout
from fnode.systems import (
    SYSTEMS,
    AbstractMechanical,
    CartPole,
    DoublePendulum,
    configured,
    noisy,
    recordings,
    simulate,
    started,
)
from fnode.systems.simulate import lengths
from fnode.trajectory import State

KEY = jax.random.key(0)
ONE_OF_ITS_KIND = ("slider_crank", "slider_crank_driven")
MECHANICAL = [name for name, kind in SYSTEMS.items() if issubclass(kind, AbstractMechanical)]
MECHANICAL = [name for name in MECHANICAL if name not in ONE_OF_ITS_KIND]


def some_states(system, count=5):
    n = len(system.columns.coordinates)
    q, v = jax.random.normal(KEY, (2, count, n))
    return State(2 * q, 3 * v)


@pytest.mark.parametrize("name", MECHANICAL)
def test_accelerations_satisfy_the_euler_lagrange_equation(name):
    system = SYSTEMS[name]()
    u = jnp.full(len(system.columns.external), 1.7) if system.columns.external else None

    def residual(x):
        a = system.acceleration(0.0, x, u)
        momentum = jax.grad(system.lagrangian, 1)
        rate = jax.jvp(momentum, (x.q, x.v), (x.v, a))[1]
        return rate - jax.grad(system.lagrangian, 0)(x.q, x.v) - system.force(x.q, x.v, u)

    np.testing.assert_allclose(jax.jit(jax.vmap(residual))(some_states(system)), 0, atol=1e-10)


@pytest.mark.parametrize("name", MECHANICAL)
def test_energy_changes_only_by_the_work_of_forces(name):
    system = SYSTEMS[name]()
    u = jnp.full(len(system.columns.external), 1.7) if system.columns.external else None

    def imbalance(x):
        rate = system(0.0, x, u)
        power = jax.jvp(system.energy, (x,), (rate,))[1]
        return power - system.force(x.q, x.v, u) @ x.v

    np.testing.assert_allclose(jax.jit(jax.vmap(imbalance))(some_states(system)), 0, atol=1e-10)


@pytest.mark.parametrize("name", ["mass_spring", "mass_spring_damper", "triple_mass_spring_damper"])
def test_the_exact_motion_is_the_tight_solvers(name):
    system = SYSTEMS[name]()
    ts = system.protocol.dt * jnp.arange(400)
    exact = system.exact(system.protocol.start, ts)
    x = rollout(system, system.protocol.start, ts, solver=TIGHT)
    np.testing.assert_allclose(exact.q, x.q, atol=1e-12)
    np.testing.assert_allclose(exact.v, x.v, atol=1e-12)


@pytest.mark.parametrize(("mass", "joules"), [(10.0, 42.4785), (1.0, 4.24785)])
def test_the_free_cart_pole_keeps_its_energy(mass, joules):
    system = CartPole(cart=mass, pole=mass)
    truth = simulate(system, 0.01 * jnp.arange(250), start=system.protocol.start)
    np.testing.assert_allclose(jax.vmap(system.energy)(truth.x), joules, rtol=1.5e-6)
    np.testing.assert_allclose(jax.vmap(system.energy)(truth.x), system.energy(truth.start), rtol=1e-12)


def test_the_free_cart_pole_swings_beyond_the_range_the_paper_states():
    system = CartPole()
    theta = simulate(system, 0.01 * jnp.arange(250), start=system.protocol.start).x.q[:, 1]
    assert theta.max() > 5.75


def test_the_papers_hamilton_equations_move_the_double_pendulum_as_lagranges_do():
    """Appendix of the paper: momenta and their rates in explicit form."""
    m1, m2, l1, l2, g = 1.3, 0.7, 0.9, 1.4, 9.81
    system = DoublePendulum(mass1=m1, mass2=m2, length1=l1, length2=l2, gravity=g)
    momentum = jax.grad(system.lagrangian, 1)

    def check(x):
        (a, b), (p, r) = x.q, momentum(x.q, x.v)
        s, c = jnp.sin(a - b), jnp.cos(a - b)
        d = m1 + m2 * s**2
        rates = jnp.array(
            [
                (l2 * p - l1 * r * c) / (l1**2 * l2 * d),
                (-m2 * l2 * p * c + (m1 + m2) * l1 * r) / (m2 * l1 * l2**2 * d),
            ]
        )
        h1 = p * r * s / (l1 * l2 * d)
        h2 = (m2 * l2**2 * p**2 + (m1 + m2) * l1**2 * r**2 - 2 * m2 * l1 * l2 * p * r * c) / (2 * (l1 * l2 * d) ** 2)
        twist = h1 - h2 * jnp.sin(2 * (a - b))
        forces = jnp.array([-(m1 + m2) * g * l1 * jnp.sin(a) - twist, -m2 * g * l2 * jnp.sin(b) + twist])
        ours = jax.jvp(momentum, (x.q, x.v), (x.v, system.acceleration(0.0, x)))[1]
        return jnp.concatenate([rates - x.v, forces - ours])

    np.testing.assert_allclose(jax.vmap(check)(some_states(system)), 0, atol=1e-10)


@pytest.mark.parametrize("name", SYSTEMS)
def test_cases_follow_the_papers_split(name):
    system = SYSTEMS[name]()
    assert {(case.train, case.test) for case in system.cases} <= {
        (system.protocol.train, system.protocol.test),
        (0, system.protocol.train),
        (0, system.protocol.train + system.protocol.test),
    }
    assert lengths(300, 100, None, None) == (400, 300)
    assert lengths(300, 100, 200, None) == (200, 200)
    assert lengths(300, 100, None, 50) == (400, 50)
    assert lengths(0, 100, None, 50) == (100, 0)


@pytest.mark.parametrize("name", ["triple_mass_spring_damper", "cart_pole_forced"])
def test_noise_touches_the_training_part_alone(name):
    system = SYSTEMS[name]()
    made, *_ = recordings(system, key=KEY, steps=60, train=40, noise=0.05)
    assert (made.training, len(made.truth)) == (40, 60)
    clean = simulate(system, made.truth.ts, start=system.protocol.start, control=made.control)
    np.testing.assert_array_equal(made.truth.states, clean.states)
    relative = jnp.std(made.observed.x.q - clean.x.q[:40], axis=0) / jnp.std(clean.x.q[:40], axis=0)
    assert jnp.all((relative > 0.02) & (relative < 0.1))


def test_moved_starts_differ_from_the_papers_by_a_few_percent_of_the_spread():
    system = SYSTEMS["triple_mass_spring_damper"]()
    first, second = (recordings(system, key=KEY, moved=k)[0].truth for k in (0, 1))
    spread = jnp.std(first.states, axis=0)
    np.testing.assert_array_equal(first.start.q, system.protocol.start.q)
    assert 0 < float(jnp.max(jnp.abs(second.states[0] - first.states[0]) / spread)) < 0.25


def test_the_papers_integrators_can_make_the_data():
    tight = recordings(CartPole(), key=KEY)[0].truth.states
    for solver in ("rk4", "midpoint", "euler"):
        loose = recordings(CartPole(), key=KEY, data_solver=solver)[0].truth.states
        assert 0 < float(jnp.mean((tight - loose)[:50] ** 2)) < 1e-1


def test_noise_is_in_units_of_each_columns_spread():
    truth = recordings(SYSTEMS["mass_spring"](), key=KEY)[0].truth
    error = noisy(truth, 0.1, KEY).states - truth.states
    np.testing.assert_allclose(jnp.std(error, axis=0) / jnp.std(truth.states, axis=0), 0.1, rtol=0.15)


def test_wrong_parameters_and_states_are_named():
    with pytest.raises(InputError, match="unknown parameter 'weight'"):
        configured(CartPole, {"weight": 1.0})
    with pytest.raises(InputError, match="must look like"):
        configured(SYSTEMS["triple_mass_spring_damper"], {"masses": 1.0})
    with pytest.raises(InputError, match="unknown state 'phi'"):
        started(CartPole(), {"phi": 1.0})
    with pytest.raises(InputError, match="no exact solution"):
        recordings(CartPole(), key=KEY, data_solver="exact")
    with pytest.raises(InputError, match="at most"):
        recordings(CartPole(), key=KEY, steps=10, train=11)
