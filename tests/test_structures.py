"""Laws of every structure a learned field can have, and of the small matrices they are made of."""

import functools
import math
from typing import get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fnode.config import Network, Structure, validated
from fnode.errors import InputError
from fnode.model import Model
from fnode.models import Library, LibraryNetwork, Scaler, is_trainable
from fnode.models.library import Basis, order, terms
from fnode.models.small_matrices import lower, positive, solve, square_root, symmetric
from fnode.structures import fresh
from fnode.training import Labelled
from fnode.trajectory import Column, Columns, State

STRUCTURES = get_args(Structure)
MECHANICAL = ("quadratic", "lagrangian", "library")  # quadratic in velocities, linear in inputs
SLIDE, TURN = Column("x"), Column("angle", angle=True)
PUSH, SIZE, TILT = Column("push"), Column("size"), Column("tilt", angle=True)
COLUMNS = {
    "alone": Columns((SLIDE,)),
    "pushed": Columns((SLIDE,), inputs=(PUSH,)),
    "sized": Columns((SLIDE, TURN), parameters=(SIZE,)),
    "everything": Columns((SLIDE, TURN), inputs=(PUSH, Column("pull")), parameters=(SIZE, TILT)),
}
HERE = 7  # states at which laws are checked


def states(columns, count=HERE, seed=0, size=1.0):
    """Samples with random states, inputs, parameters and rates, all far from standardised."""
    rng = np.random.default_rng(seed)
    n, external = len(columns.coordinates), len(columns.external)
    q, v, a = (
        jnp.asarray(size * (rng.normal(size=(count, n)) * s + m)) for s, m in ((1.5, 0.4), (2.0, 0.0), (5.0, 1.0))
    )
    u = jnp.asarray(size * rng.uniform(0.5, 2.0, size=(count, external))) if external else None
    return Labelled(jnp.zeros(count), State(q, v), u, a)


@functools.cache
def built(structure, columns, *, rough=0.2, scale=True, angles="sincos"):
    """A field of a structure with every trainable number moved at random; libraries get a mass."""
    network = Network(structure=structure, width=5, depth=1, degree=1, angles=angles, scale=scale)
    field = fresh(network, columns, jax.random.key(1), states(columns, 40, seed=5))
    free, fixed = eqx.partition(field, is_trainable(field))
    leaves, shape = jax.tree.flatten(free)
    rng = np.random.default_rng(2)
    field = eqx.combine(shape.unflatten([leaf + rough * rng.normal(size=leaf.shape) for leaf in leaves]), fixed)
    if isinstance(field, Library):
        return weighed(field), network
    if isinstance(field, LibraryNetwork):
        return eqx.tree_at(lambda f: f.library, field, weighed(field.library)), network
    return field, network


def weighed(library: Library) -> Library:
    n = library.push.shape[0]
    diagonal = jnp.asarray([4.0 * (i == j) for i, j in zip(*np.triu_indices(n), strict=True)])
    return eqx.tree_at(lambda f: f.mass, library, library.mass.at[:, 0].add(diagonal))


@eqx.filter_jit
def accelerations(field, samples):
    axes = (0, None if samples.u is None else 0)
    return jax.vmap(lambda x, u: field.acceleration(0.0, x, u), in_axes=axes)(samples.x, samples.u)


def moved(samples, *, q=0.0, v=None, u=None):
    v = samples.x.v if v is None else v
    return Labelled(samples.t, State(samples.x.q + q, v), samples.u if u is None else u, samples.rate)


@pytest.mark.parametrize("kind", ["alone", "everything"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_structure_is_a_field_that_compiles_and_comes_back_from_disk(structure, kind, tmp_path):
    columns = COLUMNS[kind]
    field, network = built(structure, columns)
    samples = states(columns)
    together = accelerations(field, samples)
    assert together.shape == samples.rate.shape
    assert np.all(np.isfinite(together))
    config = validated({"recipe": "auto", "training": {"precision": "float64"}})
    Model((field,), (network,), columns, config, 0.01).save(tmp_path)
    loaded = Model.load(tmp_path)
    assert (loaded.networks, loaded.columns) == ((network,), columns)
    for ours, theirs in zip(jax.tree.leaves(field), jax.tree.leaves(loaded.member()), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(accelerations(loaded.member(), samples), together)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_angles_shown_by_sine_and_cosine_repeat_with_every_turn(structure):
    columns = COLUMNS["everything"]
    field, _ = built(structure, columns)
    samples = states(columns)
    here = accelerations(field, samples)
    turned = moved(samples, q=jnp.array([0.0, 2 * math.pi]))
    np.testing.assert_allclose(accelerations(field, turned), here, rtol=1e-9, atol=1e-10)
    slid = accelerations(field, moved(samples, q=jnp.array([2 * math.pi, 0.0])))
    assert np.abs(slid - here).max() > 1e-3
    if structure in MECHANICAL:  # parameters that are angles repeat too
        tilted = moved(samples, u=samples.u + 2 * math.pi * jnp.array([0.0, 0.0, 0.0, 1.0]))
        np.testing.assert_allclose(accelerations(field, tilted), here, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_inputs_and_parameters_are_felt(structure):
    columns = COLUMNS["everything"]
    field, _ = built(structure, columns)
    samples = states(columns)
    here = accelerations(field, samples)
    for k in range(len(columns.external)):
        other = accelerations(field, moved(samples, u=samples.u.at[:, k].add(0.7)))
        assert np.abs(other - here).max() > 1e-4


@pytest.mark.parametrize("structure", MECHANICAL)
def test_mechanical_structures_are_quadratic_in_velocities_and_linear_in_inputs(structure):
    """Third differences along any velocity vanish, and so do second differences along any input."""
    columns = COLUMNS["everything"]
    field, _ = built(structure, columns)
    samples = states(columns)
    along = jnp.array([0.8, -1.3])
    a, b, c, d = (accelerations(field, moved(samples, v=samples.x.v + k * along)) for k in range(4))
    size = float(jnp.abs(d).max())
    np.testing.assert_allclose(d - 3 * c + 3 * b - a, 0.0, atol=1e-10 * size)
    assert float(jnp.abs(c - 2 * b + a).max()) > 1e-3 * size
    push = jnp.array([1.0, -2.0, 0.0, 0.0])
    a, b, c = (accelerations(field, moved(samples, u=samples.u + k * push)) for k in range(3))
    np.testing.assert_allclose(c - 2 * b + a, 0.0, atol=1e-10 * size)


def test_a_plain_network_is_bounded_wherever_the_state_goes_and_a_skip_carries_on():
    columns = COLUMNS["sized"]
    far, farther = states(columns, size=1e6), states(columns, size=2e6)
    network, _ = built("mlp", columns, angles="plain")
    last = network.network.layers[-1]
    bound = network.targets.restore(jnp.abs(last.weight).sum(axis=1) + jnp.abs(last.bias)) + 2 * jnp.abs(
        network.targets.mean
    )
    assert np.all(np.abs(accelerations(network, far)) <= bound)
    skipped, _ = built("linear_skip", columns, angles="plain")
    ratio = np.abs(accelerations(skipped, farther)).max() / np.abs(accelerations(skipped, far)).max()
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-3)  # linear


def test_the_network_beside_a_library_is_silent_at_first_and_bounded_ever_after():
    columns = COLUMNS["sized"]
    grown, network = built("library_network", columns)
    young = fresh(network, columns, jax.random.key(1), states(columns, 40, seed=5))
    young = eqx.tree_at(lambda field: field.library, young, grown.library)
    far = states(columns, size=1e3)
    theirs = accelerations(grown.library, far)
    np.testing.assert_allclose(accelerations(young, far), theirs, rtol=1e-9)
    masses = jax.jit(jax.vmap(lambda x, u: grown.library.mass_matrix(x.q, u)))(far.x, far.u)
    extra = jnp.einsum("kij,kj->ki", masses, accelerations(grown, far) - theirs)
    last = grown.network.layers[-1]
    bound = grown.targets.spread * (jnp.abs(last.weight).sum(axis=1) + jnp.abs(last.bias))
    size = float(jnp.abs(masses).max() * jnp.abs(theirs).max())
    assert np.abs(extra).max() > 0
    assert np.all(np.abs(extra) <= bound + 1e-13 * size)


def undamped(field):
    """The same field with the rows of its dissipation factor set to zero."""
    n = field.targets.mean.shape[0]
    pairs = slice(n * (n + 1) // 2, n * (n + 1))
    where = lambda f: (f.constant, f.masses.layers[-1].weight, f.masses.layers[-1].bias)  # noqa: E731
    return eqx.tree_at(where, field, tuple(leaf.at[pairs].set(0.0) for leaf in where(field)))


@eqx.filter_jit
def powers(field, energy, samples):
    """How fast the energy changes along the motion, at every sample."""

    def power(x):
        return jax.jvp(energy, (x,), (State(x.v, field.acceleration(0.0, x)),))[1]

    return jax.vmap(power)(samples.x)


def test_a_learned_lagrangian_keeps_its_energy_and_dampers_only_take_from_it():
    columns = Columns((SLIDE, TURN))
    damped, _ = built("lagrangian", columns)

    def energy(x):
        v = x.v / damped.targets.spread
        return 0.5 * v @ damped.coefficients(x.q)[0] @ v + damped.stored(x.q)

    samples = states(columns, 50)
    lost = powers(damped, energy, samples)
    assert np.all(lost < 0)
    np.testing.assert_allclose(powers(undamped(damped), energy, samples), 0.0, atol=1e-9 * np.abs(lost).max())


def test_a_library_without_dampers_keeps_its_energy():
    columns = Columns((SLIDE, TURN))
    field, _ = built("library", columns)
    field = eqx.tree_at(lambda f: f.damping, field, replace_fn=jnp.zeros_like)

    def energy(x):
        return 0.5 * x.v @ field.mass_matrix(x.q) @ x.v + field.potential @ field.stored(x.q)

    samples = states(columns, 50)
    size = jnp.abs(jax.jit(jax.vmap(energy))(samples.x)).max()
    np.testing.assert_allclose(powers(field, energy, samples), 0.0, atol=1e-9 * float(size))


def test_a_learned_mass_matrix_is_positive_whatever_was_learned_and_wherever_the_state_is():
    columns = Columns((SLIDE, TURN, Column("y")))
    field, _ = built("lagrangian", columns, rough=10.0)
    far = states(columns, 200, size=100.0)
    masses, drags, _ = jax.jit(jax.vmap(field.coefficients))(far.x.q)
    assert np.linalg.eigvalsh(masses).min() > 0
    assert np.linalg.eigvalsh(drags).min() > -1e-9 * np.abs(drags).max()
    entries = jax.jit(jax.vmap(lambda q: field.masses(field.features(q)) + field.constant))(far.x.q)
    raw = jax.vmap(lambda given: symmetric(given, 3))(entries[:, :6])
    assert np.linalg.eigvalsh(raw).min() < -1  # without the positive part it would not be


# Terms of a library


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_terms_are_as_many_as_combinatorics_says(degree, count):
    """Monomials: a binomial coefficient; waves in angles, two of each frequency: a Delannoy number."""
    assert len(terms(degree, (False,) * count)) == math.comb(count + degree, degree)
    delannoy = sum(math.comb(count, k) * math.comb(degree, k) * 2**k for k in range(count + 1))
    assert len(terms(degree, (True,) * count)) == delannoy
    mixed = terms(degree, (True, False))
    assert len(set(mixed)) == len(mixed)
    assert all(order(term, (True, False)) <= degree for term in mixed)


def test_a_term_is_the_product_it_names():
    turns, scaler = (True, False), Scaler(jnp.array([9.0, 1.0]), jnp.array([7.0, 2.0]))
    found = terms(3, turns)
    angle, x = 0.3, 0.8
    value = dict(zip(found, Basis(scaler, found, turns)(jnp.array([angle, x])), strict=True))
    plain = (x - 1) / 2
    expected = {
        (0, 0): 1,
        (0, 3): plain**3,
        (1, 1): np.cos(angle) * plain,
        (2, 2): np.sin(angle) * plain**2,
        (3, 1): np.cos(2 * angle) * plain,
        (6, 0): np.sin(3 * angle),
    }
    for term, number in expected.items():
        assert float(value[term]) == pytest.approx(number, rel=1e-12)


# Small matrices


def random_matrix(n, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(n, n)))


SIZES = pytest.mark.parametrize("n", [1, 2, 3])


@SIZES
def test_small_systems_are_solved_as_numpy_solves_them(n):
    matrix, right = random_matrix(n), random_matrix(n, 1)[0]
    np.testing.assert_allclose(solve(matrix, right), np.linalg.solve(matrix, right), rtol=1e-10)


def test_entries_land_where_they_belong():
    n = 3
    entries = jnp.arange(1.0, n * (n + 1) // 2 + 1)
    full = symmetric(entries, n)
    np.testing.assert_array_equal(full, full.T)
    np.testing.assert_array_equal(full[np.triu_indices(n)], entries)
    triangle = lower(entries, n)
    np.testing.assert_array_equal(triangle, np.tril(triangle))
    np.testing.assert_array_equal(triangle[np.tril_indices(n)], entries)


@SIZES
def test_the_square_root_times_itself_is_the_matrix(n):
    matrix = random_matrix(n)
    for definite in (matrix @ matrix.T + 0.1 * jnp.eye(n), 1e6 * jnp.eye(n), 1e-6 * jnp.eye(n)):
        root = jax.jit(square_root)(definite)
        np.testing.assert_allclose(root @ root, definite, atol=1e-9 * float(jnp.trace(definite)))
        np.testing.assert_allclose(root, root.T, atol=1e-9 * float(jnp.trace(root)))
        assert np.linalg.eigvalsh(root).min() > 0


@SIZES
def test_the_positive_part_does_to_eigenvalues_what_it_says_and_leaves_good_matrices_alone(n):
    matrix = random_matrix(n)
    turn = np.linalg.qr(matrix)[0]
    values = np.array([-2.0, 1e-3, 3.0])[:n]
    found = positive(jnp.asarray(turn @ np.diag(values) @ turn.T), 1e-2)
    expected = np.sort((values + np.sqrt(values**2 + 4e-4)) / 2)
    np.testing.assert_allclose(np.linalg.eigvalsh(found), expected, rtol=1e-6)
    good = matrix @ matrix.T + jnp.eye(n)
    np.testing.assert_allclose(positive(good), good, atol=2e-6)


@SIZES
def test_the_positive_part_has_its_slope_where_eigenvalues_are_equal(n):
    """Eigenvectors have none there: an autodiff through them would give nan."""
    along, h = symmetric(jnp.arange(1.0, n * (n + 1) // 2 + 1), n), 1e-6
    part = jax.jit(lambda matrix: positive(matrix, 0.1))
    for level in (1.0, 0.0, -0.5):
        here = level * jnp.eye(n)
        slope = jax.jvp(part, (here,), (along,))[1]
        by_hand = (part(here + h * along) - part(here - h * along)) / (2 * h)
        np.testing.assert_allclose(slope, by_hand, atol=1e-6 * float(jnp.abs(along).max()))


@pytest.mark.parametrize(("friction", "coefficient"), [("load", "nu"), ("none", "mu"), ("load", "force")])
def test_a_coefficient_of_friction_must_be_a_parameter_of_friction_by_load(friction, coefficient):
    columns = Columns((Column("x"),), inputs=(Column("force"),), parameters=(Column("mu"),))
    with pytest.raises(
        InputError, match=f"coefficient={coefficient} with friction={friction}: need friction=load .* mu"
    ):
        fresh(Network(structure="library", friction=friction, coefficient=coefficient), columns, jax.random.key(0))
