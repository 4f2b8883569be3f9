"""Laws of training: what is trained, resumed = uninterrupted, seeds are independent, divergence is caught."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fnode.errors import InputError
from fnode.models import FNODE, Scaler, is_trainable
from fnode.systems import SYSTEMS, DoublePendulum, MassSpringDamper, recordings
from fnode.training import Adam, DerivativeLoss, Diverged, Huber, Labelled, SquaredError, compiled, fit
from fnode.trajectory import State

KEYS = jax.random.split(jax.random.key(0), 2)


def some_samples(count=30, dtype=jnp.float64):
    truth = recordings(MassSpringDamper(), key=jax.random.key(0), steps=300)[0].truth
    part = jax.tree.map(lambda leaf: leaf[:: 300 // count].astype(dtype), truth)
    return Labelled(part.ts, part.x, None, part.a)


def some_models(keys=KEYS, **options):
    columns = MassSpringDamper.columns
    return eqx.filter_vmap(lambda key: FNODE.untrained(columns, width=8, depth=2, key=key, **options))(keys)


def trained(epochs=12, batch=4, keys=KEYS, models=None, optimiser=Adam(learning_rate=1e-2), **options):  # noqa: B008
    models = some_models(keys) if models is None else models
    return fit(models, DerivativeLoss(), some_samples(), optimiser, epochs=epochs, batch=batch, keys=keys, **options)


def weights(models):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(models, eqx.is_inexact_array))])


@pytest.mark.parametrize("name", ["double_pendulum", "cart_pole_forced", "vehicle"])
def test_the_true_field_has_no_loss(name):
    system = SYSTEMS[name]()
    n = len(system.columns.coordinates)
    u = jnp.ones(len(system.columns.external)) if system.columns.external else None
    x = State(jnp.full(n, 0.3), jnp.full(len(system.columns.velocities), -0.2))
    rate = eqx.filter_jit(system)(0.0, x, u)
    sample = Labelled(jnp.array(0.0), x, u, rate.q if system.columns.first_order else rate.v)
    penalties = SquaredError(), Huber()
    losses = jax.jit(lambda sample: jnp.stack([DerivativeLoss(one)(system, sample) for one in penalties]))(sample)
    assert float(jnp.max(losses)) < 1e-24


@pytest.mark.parametrize("steps", [1, 10**6])
def test_programs_are_the_same_however_well_they_are_compiled(steps):
    def value(x):
        return jnp.sum(jnp.tanh(jnp.cumsum(x)) ** 2)

    x = jnp.linspace(-1.0, 1.0, 7)
    np.testing.assert_allclose(compiled(value, x, steps=steps)(x), value(x), rtol=1e-14)


def test_huber_is_quadratic_near_zero_and_linear_far_away():
    huber = Huber(delta=0.5)
    np.testing.assert_allclose(huber(jnp.array([0.1, -0.1])), 0.005)
    np.testing.assert_allclose(jax.vmap(jax.grad(huber))(jnp.array([3.0, -9.0])), [0.5, -0.5])


def test_training_lowers_the_loss_and_keeps_the_best_epoch():
    result = trained(epochs=60)
    assert np.all(result.history[:, -1] < result.history[:, 0] / 5)
    assert result.history.shape == (2, 60)


def test_the_same_keys_give_the_same_bits():
    np.testing.assert_array_equal(weights(trained().models), weights(trained().models))


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit():
    states = []
    whole = trained(report=states.append)
    halfway = states[0]
    assert 0 < int(halfway.epoch) < 12
    resumed = trained(resume_from=lambda fresh: halfway)
    np.testing.assert_array_equal(weights(whole.models), weights(resumed.models))
    np.testing.assert_array_equal(whole.history, resumed.history)
    assert resumed.seconds_train > float(halfway.seconds) > 0  # what was spent before the interrupt counts


def test_seeds_trained_together_equal_seeds_trained_alone():
    together = trained()
    alone = trained(
        keys=KEYS[1:], models=jax.tree.map(lambda leaf: leaf[1:] if eqx.is_array(leaf) else leaf, some_models())
    )
    np.testing.assert_allclose(together.history[1], alone.history[0], rtol=1e-9)


def test_every_sample_counts_once_per_epoch_whatever_the_batch():
    """With a learning rate of almost zero the mean loss of an epoch is the loss of the data."""
    frozen = Adam(learning_rate=1e-300)
    whole, uneven = (trained(epochs=1, batch=batch, optimiser=frozen).history[0, 0] for batch in (30, 15))
    np.testing.assert_allclose(whole, uneven, rtol=1e-12)
    models = some_models()
    field = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, models)
    expected = jax.vmap(lambda sample: DerivativeLoss()(field, sample))(some_samples()).mean()
    np.testing.assert_allclose(whole, expected, rtol=1e-12)


def test_a_batch_that_does_not_divide_the_data_trains_on_all_of_it():
    result = trained(epochs=40, batch=7)
    assert np.all(result.history[:, -1] < result.history[:, 0] / 2)


def test_one_step_of_adam_is_optaxs():
    models = some_models()
    batch = 30
    result = trained(epochs=1, batch=batch, optimiser=Adam(learning_rate=1e-2, decay=0.5), models=models)
    model = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, models)
    parameters, rest = eqx.partition(model, is_trainable(model))

    def loss(parameters):
        return jax.vmap(lambda s: DerivativeLoss()(eqx.combine(parameters, rest), s))(some_samples()).mean()

    adam = optax.adam(1e-2)
    updates, _ = adam.update(jax.grad(loss)(parameters), adam.init(parameters))
    expected = optax.apply_updates(parameters, updates)
    ours = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, result.models)
    np.testing.assert_allclose(weights(eqx.filter(ours, is_trainable(ours))), weights(expected), atol=1e-12)


def test_learning_rates_decay_once_per_epoch():
    assert float(Adam(learning_rate=0.1, decay=0.5).rate(jnp.array(3))) == pytest.approx(0.0125)


def test_coupled_and_decoupled_weight_decay_shrink_weights():
    free = np.linalg.norm(weights(trained().models))
    for decoupled in (False, True):
        held = trained(optimiser=Adam(learning_rate=1e-2, weight_decay=1.0, decoupled=decoupled))
        assert np.linalg.norm(weights(held.models)) < free


def test_scalers_are_never_trained_nor_decayed():
    scalers = {"features": Scaler(jnp.ones(2), 2 * jnp.ones(2)), "targets": Scaler(jnp.ones(1), 3 * jnp.ones(1))}
    models = some_models(**scalers)
    result = trained(models=models, optimiser=Adam(learning_rate=0.1, weight_decay=1.0, clip=1.0))
    for name in scalers:
        np.testing.assert_array_equal(getattr(result.models, name).spread, getattr(models, name).spread)
        np.testing.assert_array_equal(getattr(result.models, name).mean, getattr(models, name).mean)


def test_a_scaler_standardises_and_restores():
    values = jax.random.normal(jax.random.key(3), (50, 3)) * jnp.array([1.0, 10.0, 0.0]) + 5
    scaler = Scaler.of(values)
    scaled = jax.vmap(scaler.standardise)(values)
    np.testing.assert_allclose(jnp.std(scaled, axis=0), [1, 1, 0], atol=1e-12)
    np.testing.assert_allclose(jax.vmap(scaler.restore)(scaled), values, atol=1e-12)


def test_a_loss_that_is_not_finite_stops_training_and_keeps_the_last_good_state():
    states = []
    with pytest.raises(Diverged, match="stopped being finite"):
        trained(epochs=400, optimiser=Adam(learning_rate=1e200), report=states.append)
    assert np.all(np.isfinite(weights(states[-1].trained)))


@pytest.mark.parametrize("batch", [0, 31])
def test_a_batch_must_fit_the_data(batch):
    with pytest.raises(InputError, match="choose 1 to 30"):
        trained(batch=batch)


def test_a_network_that_sees_positions_ignores_velocities():
    field = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, some_models(sees="positions"))
    slow, fast = (field.acceleration(0.0, State(jnp.ones(1), jnp.array([v]))) for v in (0.0, 9.0))
    np.testing.assert_array_equal(slow, fast)


def test_a_network_that_sees_sines_and_cosines_repeats_with_every_turn():
    field = FNODE.untrained(DoublePendulum.columns, width=8, depth=1, turns=(True, False), key=KEYS[0])
    here = State(jnp.array([0.3, 0.7]), jnp.array([1.0, -2.0]))
    turned, moved = (State(here.q.at[k].add(2 * jnp.pi), here.v) for k in (0, 1))
    np.testing.assert_allclose(field.acceleration(0.0, turned), field.acceleration(0.0, here), atol=1e-12)
    assert float(jnp.abs(field.acceleration(0.0, moved) - field.acceleration(0.0, here)).max()) > 1e-3


def test_xavier_weights_have_their_spread_and_biases_are_zero():
    network = FNODE.untrained(MassSpringDamper.columns, width=256, depth=2, key=jax.random.key(1)).network
    hidden = network.layers[1]
    np.testing.assert_allclose(jnp.std(hidden.weight), np.sqrt(2 / 512), rtol=0.02)
    assert [layer.weight.shape for layer in network.layers] == [(256, 2), (256, 256), (1, 256)]
    assert all(float(jnp.abs(layer.bias).max()) == 0 for layer in network.layers)
