"""Laws of least squares: Levenberg-Marquardt, the closed-form fit of a library, multiple shooting."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from fnode.config import Network
from fnode.field import AbstractAcceleration
from fnode.models import LNN, Library, Resistance, Scaler, empty_library, is_trainable, of_degree, of_joints, trimmed
from fnode.solvers import RK4, rollout
from fnode.structures import fresh
from fnode.systems import CartPole, DoublePendulum, ForcedCartPole
from fnode.training import (
    CompileClock,
    Huber,
    Labelled,
    LeastSquares,
    LibraryFit,
    ShootingResidual,
    Shot,
    least_squares,
)
from fnode.training.least_squares import STALLED, Dual, Primal, Pull, Step, _direction, _equations
from fnode.trajectory import Column, Columns, State

RNG = np.random.default_rng(0)
DESIGN, RIGHT = jnp.asarray(RNG.normal(size=(40, 2, 5))), jnp.asarray(RNG.normal(size=(40, 2)))
LINEAR = (DESIGN, RIGHT)


def linear(model, sample):
    design, right = sample
    return design @ model["p"] - right


def bent(model, sample):
    """Two channels, far from linear in the three parameters."""
    t, y = sample
    a, b, c = model["p"]
    return jnp.stack([a * jnp.exp(-b * t) + c, a * jnp.sin(c * t)]) - y


def bent_samples(noise=0.05):
    ts = jnp.linspace(0.0, 3.0, 25)
    clean = jax.vmap(lambda t: bent({"p": jnp.array([2.0, 0.7, 1.3])}, (t, jnp.zeros(2))))(ts)
    return ts, clean + noise * jnp.asarray(RNG.normal(size=clean.shape))


def start(size, value=0.0):
    return {"p": jnp.full(size, value)}


def cost(model, residual, samples, *, penalty=None, ridge=0.0, toward=0.0):
    values = jax.vmap(lambda sample: residual(model, sample))(samples)
    data = jnp.mean(values**2 if penalty is None else penalty(values))
    return data + ridge * jnp.sum((model["p"] - toward) ** 2)


def test_a_linear_problem_is_solved_as_the_normal_equations_solve_it():
    solution = LeastSquares().minimise(start(5), linear, LINEAR, ridge=0.0)
    expected = np.linalg.lstsq(DESIGN.reshape(-1, 5), RIGHT.reshape(-1), rcond=None)[0]
    np.testing.assert_allclose(solution.model["p"], expected, rtol=1e-7)
    assert solution.cost == pytest.approx(float(cost(solution.model, linear, LINEAR)))
    assert np.all(np.diff(solution.history) <= 0)
    assert np.all(solution.history[12:] < (1 + 1e-12) * solution.cost)  # a few steps were enough


def by_scipy(samples):
    residuals = jax.jit(lambda p: jax.vmap(lambda sample: bent({"p": p}, sample))(samples).reshape(-1))
    return scipy.optimize.least_squares(residuals, np.ones(3), xtol=1e-14, ftol=1e-14)


def test_a_nonlinear_problem_is_solved_as_scipy_solves_it():
    samples = bent_samples()
    ours = LeastSquares(tolerance=1e-12).minimise(start(3, 1.0), bent, samples, ridge=0.0)
    theirs = by_scipy(samples)
    np.testing.assert_allclose(ours.model["p"], theirs.x, rtol=1e-5)
    assert ours.cost <= 2 * theirs.cost / samples[1].size * (1 + 1e-9)


@pytest.mark.parametrize("around", [False, True])
def test_the_ridge_ends_where_the_whole_cost_is_stationary(around):
    begin, ridge = start(3, 1.0), 0.02
    samples = bent_samples()
    solution = LeastSquares(tolerance=1e-12).minimise(begin, bent, samples, ridge=ridge, around=around)
    toward = begin["p"] if around else 0.0
    slope = jax.grad(lambda m: cost(m, bent, samples, ridge=ridge, toward=toward))(solution.model)["p"]
    steep = jax.grad(lambda m: cost(m, bent, samples))(solution.model)["p"]
    assert jnp.linalg.norm(slope) < 1e-5 * jnp.linalg.norm(steep)


def test_a_parameter_without_strength_feels_no_ridge():
    free = LeastSquares().minimise(start(5), linear, LINEAR, ridge=0.0).model["p"]
    strong = {"p": jnp.array([0.0, 0.0, 1e9, 1e9, 1e9])}
    held = LeastSquares().minimise(start(5), linear, LINEAR, ridge=1.0, strength=strong).model["p"]
    alone = np.linalg.lstsq(DESIGN.reshape(-1, 5)[:, :2], RIGHT.reshape(-1), rcond=None)[0]
    np.testing.assert_allclose(held, [*alone, 0, 0, 0], atol=1e-6)
    assert not np.allclose(held, free, atol=1e-2)


def fresh_step(parameters, damping=0.3):
    zero = jnp.array(0)
    return Step(parameters, jnp.array(1.0), jnp.array(damping), jnp.array(2.0), zero, zero, zero, jnp.zeros(1))


def test_few_residuals_and_many_give_the_same_step():
    """Repeating every sample leaves all means alone, but makes residuals outnumber parameters."""
    few = jax.tree.map(lambda leaf: leaf[:2], LINEAR)
    many = jax.tree.map(lambda leaf: jnp.tile(leaf, (7,) + (1,) * (leaf.ndim - 1)), few)
    parameters = jnp.asarray(RNG.normal(size=5))
    pull = Pull(jnp.asarray(RNG.uniform(0.1, 1.0, 5)), jnp.ones(5))

    @jax.jit
    def step(samples):
        equations = _equations(lambda p, s: linear({"p": p}, s), parameters, samples, Huber(0.5))
        assert isinstance(equations, Dual if len(samples[1]) == 2 else Primal)
        return _direction(fresh_step(parameters), equations, pull)

    (dual, slope), (primal, other) = step(few), step(many)
    np.testing.assert_allclose(dual, primal, rtol=1e-9)
    np.testing.assert_allclose(slope, other, rtol=1e-9)


def test_a_jacobian_in_pieces_is_the_jacobian(monkeypatch):
    parameters = jnp.ones(5)

    def equations():
        return eqx.filter_jit(_equations)(lambda p, s: linear({"p": p}, s), parameters, LINEAR, Huber(0.5))

    whole = equations()
    monkeypatch.setattr(
        least_squares, "JACOBIAN_BYTES", 8 * 2 * 5 * 9
    )  # nine samples at once; forty are not a multiple
    pieces = equations()
    np.testing.assert_allclose(whole.matrix, pieces.matrix, rtol=1e-12)
    np.testing.assert_allclose(whole.right, pieces.right, rtol=1e-9, atol=1e-14)


def test_a_sample_without_weight_is_as_good_as_gone():
    def weighted(model, sample):
        inner, weight = sample
        return jnp.sqrt(weight) * bent(model, inner)

    samples, weight = bent_samples(), jnp.arange(25) % 3 != 0
    wild = (samples[0], jnp.where(weight[:, None], samples[1], 1e3))
    kept = jax.tree.map(lambda leaf: leaf[np.asarray(weight)], samples)
    options = LeastSquares(tolerance=1e-12)
    zeroed = options.minimise(start(3, 1.0), weighted, (wild, weight.astype(float)), ridge=0.0)
    np.testing.assert_allclose(zeroed.model["p"], by_scipy(kept).x, rtol=1e-5)


def test_a_robust_penalty_shrugs_off_outliers():
    truth = jnp.array([1.0, -2.0, 0.5, 3.0, -1.0])
    clean = DESIGN @ truth + 0.01 * jnp.asarray(RNG.normal(size=RIGHT.shape))
    samples = (DESIGN, clean.at[::10].add(50.0))
    errors = {}
    for penalty in (Huber(0.05), None):
        options = LeastSquares() if penalty is None else LeastSquares(penalty=penalty, tolerance=1e-9)
        solution = options.minimise(start(5), linear, samples, ridge=0.0)
        errors[penalty] = float(jnp.abs(solution.model["p"] - truth).max())
        assert solution.cost == pytest.approx(float(cost(solution.model, linear, samples, penalty=penalty)))
    robust, plain = errors.values()
    assert robust < 0.05 < plain / 10


def test_every_stop_has_its_reason():
    exact = (DESIGN, DESIGN @ jnp.ones(5))
    assert LeastSquares().minimise(start(5), linear, exact, ridge=0.0).reason == "nothing left to fit"
    brief = LeastSquares(iterations=2).minimise(start(5), linear, LINEAR)
    assert (brief.reason, len(brief.history)) == ("out of iterations", 2)
    stalled = LeastSquares(tolerance=1.0).minimise(start(3, 1.0), bent, bent_samples(), ridge=0.0)
    assert (stalled.reason, np.sum(np.diff(stalled.history, prepend=np.inf) < 0)) == ("stalled", STALLED)
    deaf = LeastSquares().minimise(start(2, 1.0), lambda m, s: jnp.ones(1) + 0 * m["p"][:1], jnp.ones(4), ridge=0.0)
    assert deaf.reason == "no step lowers the cost"
    lost = LeastSquares().minimise(start(5, jnp.nan), linear, LINEAR)
    assert (lost.reason, len(lost.history)) == ("cost not finite", 0)


def test_a_step_to_where_nothing_is_finite_is_taken_back():
    """The full step from 5 for `log p` leads to negative numbers."""
    solution = LeastSquares().minimise(start(1, 5.0), lambda m, s: jnp.log(m["p"]), jnp.zeros(1), ridge=0.0)
    np.testing.assert_allclose(solution.model["p"], 1.0, rtol=1e-9)


def test_resumed_and_interrupted_as_often_as_you_like_is_uninterrupted(monkeypatch):
    options, samples = LeastSquares(iterations=15, tolerance=1e-12), bent_samples()
    whole = options.minimise(start(3, 1.0), bent, samples)
    steps = []
    monkeypatch.setattr(least_squares, "CHUNK_SECONDS", 0.0)  # back to Python after every iteration
    one_by_one = options.minimise(start(3, 1.0), bent, samples, report=steps.append)
    resumed = options.minimise(start(3, 7.0), bent, samples, resume_from=lambda fresh: steps[3])
    assert len(steps) > 5
    for other in (one_by_one, resumed):
        np.testing.assert_array_equal(whole.model["p"], other.model["p"])
        np.testing.assert_array_equal(whole.history, other.history)


def test_a_fit_compiles_its_loop_once_and_another_of_the_same_shape_not_at_all(monkeypatch):
    monkeypatch.setattr(least_squares, "CHUNK_SECONDS", 0.0)  # many calls of the loop

    def residual(model, sample):
        return bent(model, sample)

    options = LeastSquares(iterations=3)
    with CompileClock() as clock:
        first = options.minimise(start(3, 1.0), residual, bent_samples(), ridge=1e-3)
    assert clock.programs.count("jit(_advance)") == 1
    assert clock.seconds >= first.seconds_compile > 0
    with CompileClock() as clock:
        options.minimise(start(3, 0.5), residual, bent_samples(), ridge=1e-6)
    assert "jit(_advance)" not in clock.programs


def test_scalers_are_never_fitted():
    scaled = {"p": jnp.zeros(5), "scaler": Scaler(jnp.ones(5), 2 * jnp.ones(5))}
    solution = LeastSquares().minimise(
        scaled, lambda m, s: s[0] @ m["scaler"].restore(m["p"]) - s[1], LINEAR, ridge=0.0
    )
    np.testing.assert_array_equal(solution.model["scaler"].spread, 2.0)
    np.testing.assert_array_equal(solution.model["scaler"].mean, 1.0)


# The closed-form fit of a library

SYSTEMS = {"double_pendulum": (DoublePendulum(), 2, 6), "cart_pole": (CartPole(), 1, 4)}
"""With the degree of their equations and the number of coefficients in them."""


def wild_states(count, n, seed=0):
    rng = np.random.default_rng(seed)
    return State(jnp.asarray(rng.uniform(-3, 3, (count, n))), jnp.asarray(rng.normal(size=(count, n)) * 3))


def exact_samples(system, count=120, *, inputs=0):
    x = wild_states(count, len(system.columns.coordinates))
    u = jnp.asarray(RNG.normal(size=(count, inputs))) if inputs else None
    return Labelled(jnp.zeros(count), x, u, accelerations(system, x, u))


@eqx.filter_jit
def accelerations(field, x, u=None):
    return jax.vmap(lambda x, u: field.acceleration(0.0, x, u), in_axes=(0, None if u is None else 0))(x, u)


@eqx.filter_jit
def balances(field, x, a):
    return jax.vmap(lambda x, a: field.mass_matrix(x.q) @ a - field.balance(x)[1])(x, a)


def library(system, degree, samples):
    return empty_library(system.columns, degree, scaler=Scaler.of(samples.x.q))


@pytest.mark.parametrize(("friction", "coefficient"), [("dry", None), ("load", None), ("load", "p")])
def test_the_balance_of_forces_is_its_design_times_the_coefficients(friction, coefficient):
    columns = Columns(
        (Column("a", "rad", angle=True), Column("b", "m")), inputs=(Column("u", "N"),), parameters=(Column("p", "kg"),)
    )
    network = Network(structure="library", degree=3, friction=friction, coefficient=coefficient)
    empty = fresh(network, columns, jax.random.key(0))
    trained, fixed = eqx.partition(empty, is_trainable(empty))
    zeros, unflatten = jax.flatten_util.ravel_pytree(trained)
    coefficients = jnp.asarray(RNG.normal(size=zeros.size))
    found = eqx.combine(unflatten(coefficients), fixed)
    x, a, u = State(*jnp.asarray(RNG.normal(size=(2, 2)))), *jnp.asarray(RNG.normal(size=(2, 2)))
    inertia, forces = eqx.filter_jit(lambda m: m.balance(x, u))(found)
    design = eqx.filter_jit(lambda m: m.design(x, a, u))(found)
    np.testing.assert_allclose(design @ coefficients, inertia @ a - forces, rtol=1e-11)
    acceleration = eqx.filter_jit(lambda m: m.acceleration(0.0, x, u))(found)
    np.testing.assert_allclose(acceleration, np.linalg.solve(inertia, forces), rtol=1e-11)


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_without_dampers_a_library_moves_by_the_euler_lagrange_equation(degree):
    columns = Columns((Column("a", "rad", angle=True), Column("b", "m")), parameters=(Column("p", "kg"),))
    empty = fresh(Network(structure="library", degree=degree), columns, jax.random.key(0))
    rng = np.random.default_rng(degree)
    mass, potential = (0.1 * rng.normal(size=leaf.shape) for leaf in (empty.mass, empty.potential))
    mass[:, 0] = 9.0, 1.0, 9.0  # far from singular
    mass, potential = jnp.asarray(mass), jnp.asarray(potential)
    found = eqx.tree_at(lambda m: (m.mass, m.potential), empty, (mass, potential))
    x, u = State(*jnp.asarray(rng.normal(size=(2, 2)))), jnp.array([0.7])

    @eqx.filter_jit
    def acceleration(field):
        return field.acceleration(0.0, x, u)

    def lagrangian(q, v, u):
        return 0.5 * v @ found.mass_matrix(q, u) @ v - potential @ found.stored(found.variables(q, u))

    np.testing.assert_allclose(acceleration(found), acceleration(LNN(lagrangian)), rtol=1e-6)
    low = trimmed(found, max(0, degree - 1))
    kept = of_degree(found, max(0, degree - 1))
    whole = jax.tree.map(lambda leaf, mark: leaf * mark, *(eqx.filter(m, is_trainable(found)) for m in (found, kept)))
    whole = eqx.combine(whole, found)
    np.testing.assert_allclose(acceleration(low), acceleration(whole), rtol=1e-10)


class Wedged(AbstractAcceleration):
    """A pendulum in a dry bearing that carries its weight: `q'' = -sin q - mu N tanh(q' / slip)`."""

    def acceleration(self, t, x, u=None):
        normal = 3.0 + jnp.cos(x.q) + x.v**2
        return -jnp.sin(x.q) - u * normal * jnp.tanh(x.v * (2.0 + jnp.sin(x.q)) / 1e-3)


def test_friction_that_goes_with_a_load_is_found_from_what_moves_and_its_slip_from_what_rests():
    rng = np.random.default_rng(5)
    columns = Columns((Column("q", "rad", angle=True),), parameters=(Column("mu"),))
    v = np.where(np.arange(600) % 2, rng.uniform(-2, 2, 600), rng.uniform(-4e-4, 4e-4, 600))
    x = State(*jnp.asarray(np.stack([rng.uniform(-1.5, 1.5, 600), v]))[..., None])
    u = jnp.asarray(rng.uniform(0.1, 0.6, (600, 1)))
    a = accelerations(Wedged(), x, u)
    samples = Labelled(jnp.zeros(600), x, u, a.at[7].add(5.0).at[21].add(-5.0))  # two labels are far off
    network = Network(structure="library", degree=1, friction="load", coefficient="mu", scale=True, angles="sincos")
    empty = fresh(network, columns, jax.random.key(0), samples)
    assert isinstance(empty, Library)
    (found,) = LibraryFit(empty, samples).solve([1e-20], np.full(600, True))
    miss = np.abs(accelerations(found, x, u) - a)
    assert miss[1::2].max() < 1e-6
    assert miss[::2].max() < 0.02 * float(jnp.std(a[::2]))


def test_parameters_that_feel_an_infinite_ridge_stay():
    begun = {"p": jnp.array([0.0, 7.0, 0.0, 0.0, 0.0])}
    strength = {"p": jnp.array([1.0, jnp.inf, 1.0, 1.0, 1.0])}
    fitted = LeastSquares().minimise(begun, linear, LINEAR, ridge=1e-12, strength=strength).model["p"]
    rest = np.asarray(RIGHT - 7.0 * DESIGN[:, :, 1]).reshape(-1)
    best = np.linalg.lstsq(np.delete(np.asarray(DESIGN), 1, axis=2).reshape(len(rest), -1), rest)[0]
    assert fitted[1] == 7.0
    np.testing.assert_allclose(np.delete(np.asarray(fitted), 1), best, rtol=1e-6)


def test_friction_by_load_is_refused_nothing_where_all_is_at_rest():
    """Too little moves to tell anything: a poor library, but a finite one, for the rollouts to judge."""
    columns = Columns((Column("q", "m"),))
    samples = Labelled(
        jnp.zeros(40), State(jnp.linspace(0, 1, 40)[:, None], jnp.zeros((40, 1))), None, jnp.ones((40, 1))
    )
    empty = fresh(
        Network(structure="library", degree=1, friction="load", scale=True), columns, jax.random.key(0), samples
    )
    assert isinstance(empty, Library)
    fit, used = LibraryFit(empty, samples), np.full(40, True)
    for found in (*fit.solve([1e-6], used), *fit.prune([3], used)):
        assert np.isfinite(accelerations(found, samples.x)).all()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_library_that_holds_the_true_equations_finds_them(name):
    """With all of its terms, and with no more than the equations have."""
    system, degree, size = SYSTEMS[name]
    samples = exact_samples(system)
    fit, used = LibraryFit(library(system, degree, samples), samples), np.full(120, True)
    unseen = wild_states(50, 2, seed=1)
    true = accelerations(system, unseen)
    for found in (*fit.solve([1e-24], used), *fit.prune([size], used)):
        np.testing.assert_allclose(accelerations(found, unseen), true, atol=1e-6 * float(jnp.abs(true).max()))
        balance = balances(found, unseen, true)
        assert float(jnp.abs(balance).max()) < 1e-6 * float(jnp.abs(true).max())


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_terms_of_joints_hold_pendulums_and_see_more_through_noise_than_all_terms(name):
    system = SYSTEMS[name][0]
    exact, unseen = exact_samples(system, count=60), wild_states(50, 2, seed=1)
    noise = jnp.asarray(np.random.default_rng(2).normal(size=exact.rate.shape)) * jnp.std(exact.rate, axis=0)
    noisy = dataclasses.replace(exact, rate=exact.rate + 0.03 * noise)
    true, used = accelerations(system, unseen), np.full(60, True)
    model = library(system, 2, exact)

    def error(samples, allowed):
        (found,) = LibraryFit(model, samples, allowed).solve([1e-16], used)
        return float(jnp.sqrt(jnp.mean((accelerations(found, unseen) - true) ** 2)) / jnp.std(true))

    assert error(exact, of_joints(model)) < 1e-6
    assert error(noisy, of_joints(model)) < 0.3 * error(noisy, None)


def test_shots_pass_over_samples_that_were_not_measured():
    system, ts = DoublePendulum(), jnp.linspace(0.0, 0.2, 21)
    begin = State(jnp.array([1.0, 0.5]), jnp.array([0.0, 0.3]))
    x = rollout(system, begin, ts)
    states = jnp.concatenate([x.q, x.v], axis=1).at[::5].set(jnp.nan)
    unit = jnp.array([1e-3, 1e-3, jnp.inf, 1e-3])
    residual = ShootingResidual(RK4)(system, begin, Shot(ts, states.at[:, 2].add(1.0), None, unit))
    np.testing.assert_allclose(residual, 0.0, atol=1e-9)


def test_dry_friction_and_drag_of_joints_are_found():
    """Friction whose slip is between those of the library is not in it, but near; drag is in it."""
    system = DoublePendulum(joint_friction=0.5)
    samples = exact_samples(system)
    used, unseen = np.full(120, True), wild_states(50, 2, seed=1)
    true, errors = accelerations(system, unseen), []
    for friction in ("none", "dry"):
        model = empty_library(system.columns, 2, scaler=Scaler.of(samples.x.q), friction=friction, v=samples.x.v)
        (found,) = LibraryFit(model, samples).solve([1e-12], used)
        errors.append(float(jnp.sqrt(jnp.mean((accelerations(found, unseen) - true) ** 2))))
    assert errors[1] < errors[0] / 5


def test_a_joint_feels_friction_along_its_own_rate():
    resistance = Resistance.between(2)
    w = resistance.relative(jnp.array([1.0, -2.0]))
    np.testing.assert_allclose(w, [1.0, -3.0, -2.0])
    power = resistance.forces(jnp.array([0.0, 1.0, 0.0]), 2) @ jnp.array([1.0, -2.0])
    np.testing.assert_allclose(power, w[1])


@pytest.fixture(scope="module")
def driven():
    """A fit of a cart-pole under a force, with accelerations that are not quite right."""
    system = ForcedCartPole()
    samples = exact_samples(system, inputs=1)
    rough = samples.rate + 0.1 * jnp.asarray(RNG.normal(size=samples.rate.shape))
    return system, samples, dataclasses.replace(samples, rate=rough)


def test_inputs_push_with_coefficients_of_their_own(driven):
    system, samples, _ = driven
    (found,) = LibraryFit(library(system, 1, samples), samples).solve([1e-24], np.full(120, True))
    unseen, u = wild_states(50, 2, seed=1), jnp.asarray(RNG.normal(size=(50, 1)))
    true = accelerations(system, unseen, u)
    np.testing.assert_allclose(accelerations(found, unseen, u), true, atol=1e-6 * float(jnp.abs(true).max()))


def coefficients(model):
    return np.concatenate([np.ravel(leaf) for leaf in (model.mass, model.potential, model.damping, model.push)])


def test_pruning_keeps_the_sought_number_and_only_ever_drops(driven):
    system, _, rough = driven
    fit = LibraryFit(library(system, 1, rough), rough)
    sizes, used = (20, 12, 8, 5), np.full(120, True)
    found = fit.prune(sizes, used)
    assert [np.count_nonzero(coefficients(model)) for model in found] == list(sizes)
    for larger, smaller in itertools.pairwise(found):
        assert set(np.flatnonzero(coefficients(smaller))) < set(np.flatnonzero(coefficients(larger)))


def test_units_of_weights_and_scale_of_coefficients_do_not_matter(driven):
    system, _, rough = driven
    used, weight = np.full(120, True), jnp.asarray(RNG.uniform(0.5, 2.0, rough.rate.shape))
    once, thrice = (
        LibraryFit(library(system, 1, rough), dataclasses.replace(rough, weight=k * weight)).prune([8], used)[0]
        for k in (1.0, 3.0)
    )
    here, u = wild_states(20, 2, seed=2), jnp.ones((20, 1))
    expected = accelerations(once, here, u)
    np.testing.assert_allclose(accelerations(thrice, here, u), expected, rtol=1e-6)
    double = jax.tree.map(lambda leaf: 2 * leaf, eqx.filter(once, lambda leaf: eqx.is_inexact_array(leaf)))
    scaled = eqx.tree_at(
        lambda m: (m.mass, m.potential, m.damping, m.push),
        once,
        (double.mass, double.potential, double.damping, double.push),
    )
    np.testing.assert_allclose(accelerations(scaled, here, u), expected, rtol=1e-9)


def test_samples_that_are_not_used_do_not_matter():
    system, degree, _ = SYSTEMS["cart_pole"]
    samples, used = exact_samples(system), np.arange(120) % 2 == 0
    spoilt = dataclasses.replace(samples, rate=jnp.where(used[:, None], samples.rate, 1e2))
    (found,) = LibraryFit(library(system, degree, samples), spoilt).solve([1e-24], used)
    true = accelerations(system, samples.x)
    np.testing.assert_allclose(accelerations(found, samples.x), true, atol=1e-6 * float(jnp.abs(true).max()))


def test_an_overwhelming_ridge_leaves_a_unit_mass_without_forces(driven):
    system, _, rough = driven
    (found,) = LibraryFit(library(system, 1, rough), rough).solve([1e12], np.full(120, True))
    np.testing.assert_allclose(found.mass_matrix(jnp.zeros(2)), np.eye(2), atol=1e-6)
    assert float(jnp.abs(accelerations(found, rough.x, rough.u)).max()) < 1e-6


# Multiple shooting


class Oscillator(AbstractAcceleration):
    """`q'' = -k q - d q'`, both to be found."""

    p: jax.Array

    def acceleration(self, t, x, u=None):
        force = -self.p[0] * x.q - self.p[1] * x.v
        return force if u is None else force + u


def shots(noise, *, windows=6, samples=30, driven=False):
    """Windows of one known oscillator, their true starts, and noisy samples."""
    truth = Oscillator(jnp.array([4.0, 0.3]))
    rng = np.random.default_rng(3)
    ts = jnp.tile(0.05 * jnp.arange(samples), (windows, 1))
    starts = State(jnp.asarray(rng.normal(size=(windows, 1))), jnp.asarray(rng.normal(size=(windows, 1))))
    u = jnp.asarray(rng.normal(size=(windows, samples, 1))) if driven else None
    clean = Shot(ts, jnp.zeros((windows, samples, 2)), u, jnp.ones((windows, 2)))
    residual = ShootingResidual(RK4)
    motion = jax.jit(jax.vmap(residual, in_axes=(None, 0, 0)))(truth, starts, clean)
    motion = motion.reshape(windows, samples, 2)
    measured = motion + noise * jnp.asarray(rng.normal(size=motion.shape))
    return truth, starts, dataclasses.replace(clean, states=measured)


def test_unknowns_of_single_samples_come_out_as_if_all_were_shared():
    """Elimination changes how the equations are solved, not what is solved."""
    ts, y = bent_samples()
    own = 0.1 * jnp.asarray(RNG.normal(size=(len(ts), 1)))
    number = jnp.arange(len(ts))

    def apart(model, own, sample):
        return jnp.append(bent(model, sample) + own, own)

    def together(model, sample):
        return apart({"p": model["p"]}, model["own"][sample[2]], sample[:2])

    options = LeastSquares(iterations=6)
    eliminated = options.minimise(start(3, 1.0), apart, (ts, y), each=own, ridge=0.0)
    dense = options.minimise({**start(3, 1.0), "own": own}, together, (ts, y, number), ridge=0.0)
    np.testing.assert_allclose(eliminated.history, dense.history, rtol=1e-8)
    np.testing.assert_allclose(eliminated.model["p"], dense.model["p"], rtol=1e-6)
    np.testing.assert_allclose(eliminated.each, dense.model["own"], rtol=1e-6, atol=1e-9)


def test_a_shot_at_nothing_is_the_rollout():
    truth, starts, window = shots(0.0, windows=2)
    first = jax.tree.map(lambda leaf: leaf[0], starts)
    x = rollout(truth, first, window.ts[0])
    np.testing.assert_allclose(window.states[0], jnp.concatenate([x.q, x.v], axis=1), atol=1e-14)


@pytest.mark.parametrize("driven", [False, True])
def test_the_true_field_from_the_true_starts_meets_every_sample(driven):
    truth, starts, windows = shots(0.0, windows=2, driven=driven)
    misses = jax.jit(jax.vmap(ShootingResidual(RK4), in_axes=(None, 0, 0)))(truth, starts, windows)
    np.testing.assert_allclose(misses, 0.0, atol=1e-14)


def test_the_estimated_starts_and_field_beat_the_noise():
    truth, starts, windows = shots(0.05)
    raw = State(windows.states[:, 0, :1], windows.states[:, 0, 1:])
    begin = Oscillator(jnp.array([3.0, 0.0]))
    found = LeastSquares(iterations=30).minimise(begin, ShootingResidual(RK4), windows, each=raw, ridge=0.0)

    def error(guess):
        return float(jnp.sqrt(jnp.mean((guess.q - starts.q) ** 2) + jnp.mean((guess.v - starts.v) ** 2)))

    assert error(found.each) < error(raw) / 2
    np.testing.assert_allclose(found.model.p, truth.p, atol=0.1)
