"""Laws of constraints: derivatives, constraint forces, completion, projection."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fnode.constraints import (
    Holonomic,
    complete,
    complete_accelerations,
    complete_positions,
    complete_velocities,
    find_partition,
    given_partition,
    project,
    solve_kkt,
)
from fnode.errors import InputError
from fnode.systems.slider_crank import SliderCrank
from fnode.trajectory import Column, Columns, State, Trajectory

# Compiled once per member and shared by all laws.
position = eqx.filter_jit(complete_positions)
nearest = eqx.filter_jit(project)
rates = eqx.filter_jit(
    lambda constraints, partition, q, v_free, a_free: (
        v := complete_velocities(constraints, partition, q, v_free),
        complete_accelerations(constraints, partition, q, v, a_free),
    )
)
jacobian_at = eqx.filter_jit(lambda constraints, q: constraints.jacobian(q))
solved = eqx.filter_jit(solve_kkt)
residuals_at = eqx.filter_jit(lambda constraints, q, v, a: constraints.residuals(q, v, a))


@dataclasses.dataclass(frozen=True)
class Member:
    """Constraints, a pose near one that obeys them, and coordinates that determine the others there."""

    constraints: Holonomic
    near: tuple[float, ...]
    independent: tuple[int, ...]


CONSTRAINTS = {
    "circle": Member(Holonomic(lambda q: q @ q - 1.0), (0.8, 0.7), (0,)),
    "sphere": Member(Holonomic(lambda q: jnp.log(q @ q)), (0.5, -0.3, 0.8), (0, 1)),
    "slider-crank": Member(SliderCrank().constraints, tuple(map(float, SliderCrank().pose(jnp.array([0.7])))), (2,)),
}


@pytest.fixture(params=CONSTRAINTS, scope="module")
def member(request):
    return CONSTRAINTS[request.param]


@pytest.fixture(scope="module")
def placed(member):
    """The member at a consistent state, with its partition: `(constraints, partition, x)`."""
    near = jnp.array(member.near)
    x = nearest(member.constraints, State(near, jnp.ones_like(near)), jnp.ones_like(near))
    return member.constraints, given_partition(jacobian_at(member.constraints, x.q), member.independent), x


def largest(values):
    return float(np.max(np.abs(values)))


def test_velocity_and_acceleration_forms_are_time_derivatives(placed):
    constraints, _, x = placed
    n = x.q.shape[0]
    a = jnp.linspace(-1.0, 1.0, n)

    h = 1e-3
    ts = h * jnp.arange(-2, 3)
    samples = jax.jit(jax.vmap(lambda t: constraints(x.q + t * x.v + t**2 / 2 * a)))(ts)
    first = jnp.array([1 / 12, -2 / 3, 0, 2 / 3, -1 / 12]) @ samples / h
    second = jnp.array([-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12]) @ samples / h**2
    _, velocity, acceleration = residuals_at(constraints, x.q, x.v, a)
    assert largest(velocity - first) < 1e-8
    assert largest(acceleration - second) < 1e-6


def test_projection_lands_on_the_constraints_and_stays(placed):
    constraints, _, x = placed
    assert max(map(largest, residuals_at(constraints, x.q, x.v, x.v)[:2])) < 1e-12
    again = nearest(constraints, x, jnp.ones_like(x.q))
    assert largest(again.q - x.q) + largest(again.v - x.v) < 1e-12


def test_projection_takes_the_shortest_way(placed):
    constraints, _, x = placed
    weight = jnp.linspace(1.0, 2.0, x.q.shape[0])
    normal = jacobian_at(constraints, x.q).sum(axis=0) / weight
    back = nearest(constraints, State(x.q + 1e-5 * normal, x.v + normal), weight)
    assert largest(back.q - x.q) < 1e-8
    assert largest(back.v - x.v) < 1e-3 * largest(x.v)


def test_completion_meets_the_constraints_and_keeps_what_is_independent(placed):
    constraints, partition, x = placed
    moved = x.q.at[partition.independent].add(0.01)
    q = position(constraints, partition, moved)
    free = x.v[partition.independent]
    v, a = rates(constraints, partition, q, free, free)
    assert largest(q[partition.independent] - moved[partition.independent]) == 0
    assert max(map(largest, residuals_at(constraints, q, v, a))) < 1e-12


def test_completion_has_the_derivative_of_the_constraints(placed):
    constraints, partition, x = placed

    def full(free):
        return complete_positions(constraints, partition, x.q.at[partition.independent].set(free))

    free = x.q[partition.independent]
    both = jax.jit(lambda free: (jax.jacfwd(full)(free), jax.grad(lambda z: full(z).sum())(free)))
    influence, backward = both(free)
    assert largest(jacobian_at(constraints, x.q) @ influence) < 1e-10
    assert largest(backward - influence.sum(axis=0)) < 1e-10


def test_completion_of_many_at_once_is_completion_of_each(placed):
    constraints, partition, x = placed
    shifts = jnp.linspace(-0.02, 0.02, 7)
    starts = jnp.stack([x.q.at[partition.independent].add(shift) for shift in shifts])
    each = jnp.stack([position(constraints, partition, start) for start in starts])
    together = jax.jit(jax.vmap(lambda q: complete_positions(constraints, partition, q)))(starts)
    assert largest(together - each) < 1e-13


def test_pivoting_finds_coordinates_that_determine_the_others(placed):
    constraints, given, x = placed
    jacobian = jacobian_at(constraints, x.q)
    found = find_partition(jacobian, given.dependent.shape[0])
    assert sorted([*found.independent.tolist(), *found.dependent.tolist()]) == list(range(x.q.shape[0]))
    assert float(found.condition(jacobian)) <= 3 * float(given.condition(jacobian))


def test_accelerations_and_multipliers_solve_the_equations_of_motion(placed):
    constraints, _, x = placed
    n = x.q.shape[0]
    jacobian = jacobian_at(constraints, x.q)
    gamma = -residuals_at(constraints, x.q, x.v, jnp.zeros(n))[2]
    mass, force = jnp.linspace(0.5, 2.0, n), jnp.cos(jnp.arange(n))
    a, multipliers = solved(mass, jacobian, force, gamma, redundant=False)
    assert largest(mass * a + jacobian.T @ multipliers - force) < 1e-11
    assert largest(jacobian @ a - gamma) < 1e-11
    dense, same = solved(jnp.diag(mass), jacobian, force, gamma, redundant=False)
    assert largest(dense - a) + largest(same - multipliers) < 1e-10
    twice = jnp.concatenate([jacobian, jacobian]), jnp.concatenate([gamma, gamma])
    shared, halves = solved(mass, twice[0], force, twice[1], redundant=True)
    assert largest(shared - a) < 1e-10
    assert largest(halves - jnp.concatenate([multipliers, multipliers]) / 2) < 1e-10


def sine_motion(amplitude, offset, name):
    """A coordinate that swings, with its two derivatives."""
    ts = jnp.linspace(0.0, 4.0, 2001)
    q, v, a = offset + amplitude * jnp.sin(ts), amplitude * jnp.cos(ts), -amplitude * jnp.sin(ts)
    return Trajectory(ts, State(q[:, None], v[:, None]), a=a[:, None], columns=Columns((Column(name),)))


def test_completed_levels_belong_together():
    crank = SliderCrank()
    full = crank.complete(sine_motion(8.0, 0.3, "theta1"))
    residuals = jax.jit(jax.vmap(crank.constraints.residuals))(full.x.q, full.x.v, full.a)
    assert max(map(largest, residuals)) < 1e-11
    stencil = jnp.array([-1 / 60, 3 / 20, -3 / 4, 0, 3 / 4, -3 / 20, 1 / 60]) / (full.ts[1] - full.ts[0])

    def rate(values):
        return np.stack([np.correlate(column, stencil, mode="valid") for column in values.T], axis=1)

    assert largest(rate(full.x.q) - full.x.v[3:-3]) < 1e-6
    assert largest(rate(full.x.v) - full.a[3:-3]) < 1e-6


@pytest.mark.parametrize(
    ("amplitude", "offset", "reason"),
    [(3.0, 5.5, "beyond the reach of the rod"), (2.0, 4.0, "through the dead centre at full stretch")],
)
def test_completion_stops_at_a_dead_centre_and_says_when(amplitude, offset, reason):
    crank = SliderCrank()
    jacobian = jacobian_at(crank.constraints, crank.pose(jnp.array([0.7])))
    slider = given_partition(jacobian, [6])
    motion = sine_motion(amplitude, offset, "x3")
    guess = crank.pose(jnp.array([1.0]))
    with pytest.raises(InputError, match="x3 no longer determine") as caught:
        complete(crank.constraints, slider, motion, guess, columns=crank.full_columns)
    stopped = float(str(caught.value).split("at t = ")[1].split()[0])
    passed = float(motion.ts[int(np.argmax(motion.x.q[:, 0] >= 6.0 - 1e-9))]) if amplitude == 3.0 else np.pi / 2
    assert abs(stopped - passed) < 0.05, reason


@pytest.mark.parametrize(
    ("independent", "complaint"),
    [((), "need 1"), ((2, 5), "need 1"), ((9,), "need 1"), ((7,), "rank 7 of 8"), ((6,), "do not determine")],
)
def test_bad_partitions_are_refused(independent, complaint):
    straight = jacobian_at(SliderCrank().constraints, SliderCrank().pose(jnp.zeros(1)))
    with pytest.raises(InputError, match=complaint) as caught:
        given_partition(straight, independent)
    assert "\n" not in str(caught.value)
