"""Laws of learned models: saved = loaded, jitted = plain, simulated from Python as from the shell."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fnode
from fnode.errors import InputError
from fnode.field import AbstractAcceleration
from fnode.models import RolledOut
from fnode.solvers import RK4
from fnode.systems import DoublePendulum, MassSpringDamper, TripleMassSpringDamper, simulate
from fnode.training import estimated_start
from fnode.trajectory import State, Trajectory

SMALL = {"recipe": "paper", "network": {"width": 6}, "training": {"epochs": 5}}


@pytest.fixture(scope="module")
def swing() -> Trajectory:
    return simulate(MassSpringDamper(), 0.02 * jnp.arange(60), start=MassSpringDamper.protocol.start)


@pytest.fixture(scope="module")
def model(swing):
    return fnode.learn(swing, seeds=2, **SMALL)


def test_a_saved_model_loads_to_bit_equality(model, tmp_path):
    model.save(tmp_path)
    loaded = fnode.load(tmp_path)
    ours, theirs = (jax.tree.leaves(eqx.filter(m.members, eqx.is_array)) for m in (model, loaded))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    assert (loaded.columns, loaded.config, loaded.dt, loaded.chosen) == (
        model.columns,
        model.config,
        model.dt,
        model.chosen,
    )


def test_a_loaded_model_predicts_the_same_bits(model, swing, tmp_path):
    model.save(tmp_path)
    np.testing.assert_array_equal(model.simulate(swing).states, fnode.load(tmp_path).simulate(swing).states)


def test_a_model_is_a_field_that_jits_and_vmaps(model, swing):
    plain = jax.vmap(model.member())(swing.ts, swing.x)
    compiled = jax.jit(jax.vmap(model.member()))(swing.ts, swing.x)
    np.testing.assert_allclose(plain.v, compiled.v, rtol=1e-5)
    one = model(0.0, swing.start)
    np.testing.assert_allclose(one.v, plain.v[0], rtol=1e-5)


def test_a_simulation_begins_where_it_is_told_and_ends_when_it_is_told(model, swing):
    future = model.simulate(swing, until=3.0, dt=0.5)
    np.testing.assert_allclose(future.ts, np.arange(7) * 0.5)
    np.testing.assert_array_equal(future.x.q[0], swing.x.q[0])
    with pytest.raises(InputError, match="end after the start"):
        model.simulate(swing, until=-1.0)


def test_several_trajectories_of_unequal_length_are_learned_together(swing):
    together = fnode.learn([swing, swing[:25]], **SMALL)
    assert together.size == 1


def test_python_refuses_what_the_command_refuses(swing):
    broken = eqx.tree_at(lambda trajectory: trajectory.x.q, swing, swing.x.q.at[3, 0].set(jnp.nan))
    with pytest.raises(InputError, match="sample 3"):
        fnode.learn(broken, **SMALL)
    with pytest.raises(InputError, match="unknown recipe"):
        fnode.learn(swing, recipe="soup")
    with pytest.raises(InputError, match="epochs"):
        fnode.learn(swing, recipe="paper", training={"epochs": -1})


def test_columns_name_everything_once():
    with pytest.raises(InputError, match="appears twice"):
        fnode.Columns((fnode.Column("x"), fnode.Column("x")))


def test_files_come_back_as_they_were_written(swing, tmp_path):
    for suffix in ("csv", "parquet", "npz"):
        fnode.io.write(tmp_path / f"two.{suffix}", {"a": swing, "b": swing[:7]})
        back = fnode.read(tmp_path / f"two.{suffix}")
        assert list(back) == ["a", "b"]
        assert len(back["b"]) == 7
        np.testing.assert_array_equal(back["a"].states, swing.states)


def test_states_of_a_stretch_are_the_stretch_of_states(swing):
    np.testing.assert_array_equal(swing[5:9].states, swing.states[5:9])
    assert isinstance(swing.start, State)


class Leaving(AbstractAcceleration):
    """Leaves for good after a short while."""

    def acceleration(self, t, x, u=None):
        return 1e3 * x.q**3


def test_a_member_that_leaves_for_good_does_not_spoil_the_prediction(model, swing):
    spoiled = dataclasses.replace(model, members=(Leaving(), model.member(1)), chosen=0)
    sound = dataclasses.replace(model, chosen=1)
    assert not np.isfinite(dataclasses.replace(spoiled, members=(Leaving(),) * 2).simulate(swing).states).all()
    with pytest.warns(UserWarning, match="member 0 leaves for good: member 1"):
        motion = spoiled.simulate(swing)
    np.testing.assert_array_equal(motion.states, sound.simulate(swing).states)


def test_samples_further_apart_than_the_data_get_as_many_more_steps(model, swing):
    fine, coarse = model.simulate(swing, until=1.0), model.simulate(swing, until=1.0, dt=5 * model.dt)
    np.testing.assert_allclose(coarse.states, fine.states[::5], rtol=1e-6, atol=1e-7)


def test_a_model_that_is_a_little_wrong_still_tells_the_start_better_than_the_first_sample():
    """It follows all samples within their noise, but from a start that makes up for its error."""
    system, rng = TripleMassSpringDamper(), np.random.default_rng(3)
    rolled = RolledOut(TripleMassSpringDamper(stiffnesses=(51.0, 50.0, 50.0)), RK4)
    true = simulate(system, 0.01 * jnp.arange(300), start=system.protocol.start)
    noise = 0.01 * np.std(np.asarray(true.states), axis=0)
    closer = []
    for _ in range(3):
        states = jnp.asarray(np.asarray(true.states) + noise * rng.normal(size=true.states.shape))
        noisy = dataclasses.replace(true, x=State(*jnp.split(states, 2, axis=1)))
        found = estimated_start(rolled, noisy, noisy.start, noise)
        miss = [np.linalg.norm((np.concatenate([x.q, x.v]) - true.states[0]) / noise) for x in (noisy.start, found)]
        closer.append(miss[0] / miss[1])
    assert np.median(closer) > 2


@pytest.mark.parametrize("measured", ["positions and velocities", "positions"])
def test_all_noisy_samples_together_tell_the_start_better_than_the_first(measured):
    system, rng = DoublePendulum(), np.random.default_rng(3)
    true = simulate(system, 0.01 * jnp.arange(200), start=system.protocol.start)
    noise = 0.01 * np.std(np.asarray(true.states), axis=0)
    if measured == "positions":
        noise = np.where([True, True, False, False], noise, np.inf)
    closer = []
    for _ in range(3):
        wrong = np.where(np.isfinite(noise), noise, 0.3)
        states = np.asarray(true.states) + wrong * rng.normal(size=true.states.shape)
        seen = np.where(np.isfinite(noise), states, np.nan)
        noisy = dataclasses.replace(true, x=State(*jnp.split(jnp.asarray(seen), 2, axis=1)))
        first = State(*jnp.split(jnp.asarray(states[0]), 2))
        found = estimated_start(RolledOut(system, RK4), noisy, first, noise)
        miss = [np.linalg.norm((np.concatenate([x.q, x.v]) - true.states[0]) / wrong) for x in (first, found)]
        closer.append(miss[0] / miss[1])
    assert np.median(closer) > 3


def test_a_model_that_does_not_follow_the_samples_has_no_say_in_where_they_begin():
    true = simulate(DoublePendulum(), 0.01 * jnp.arange(50), start=DoublePendulum.protocol.start)
    rolled, guess = RolledOut(DoublePendulum(gravity=-9.81), RK4), true.start
    assert estimated_start(rolled, true, guess, np.full(4, 1e-6)) is guess
