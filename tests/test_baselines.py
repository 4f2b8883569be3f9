"""Laws of the models FNODE is compared with: given the truth they are the truth; what they can learn they learn."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fnode
from fnode.config import validated
from fnode.constraints import Holonomic
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.learn import run
from fnode.methods import METHODS, check_method, has_constant_mass
from fnode.metrics import flat
from fnode.model import predict
from fnode.models import FCNN, FNODE, HNN, LNN, LSTM, AbstractForecaster, Scaler
from fnode.models.lstm import Layer
from fnode.preparation import prepare, resolved
from fnode.recipes import recipe_values
from fnode.recording import Recording
from fnode.scores import residuals, scores
from fnode.signals import Constant, LinearHold
from fnode.solvers import ADJOINTS, RK4, STORMER_VERLET, YOSHIDA4, AdjointRK4, rollout
from fnode.systems import (
    SYSTEMS,
    CartPole,
    DoublePendulum,
    ForcedCartPole,
    MassSpring,
    MassSpringDamper,
    SliderCrank,
    TripleMassSpringDamper,
    simulate,
)
from fnode.training import Adam, HamiltonLoss, InstantLoss, Labelled, NextStateLoss, TrajectoryLoss, fit, windows
from fnode.trajectory import Column, Columns, State, Trajectory

KEY = jax.random.key(0)
UNDAMPED_CHAIN = TripleMassSpringDamper(dampings=(0.0, 0.0, 0.0))
SMALL = {"network": {"width": 6, "depth": 1}, "training": {"epochs": 3, "batch": 5}}


def somewhere(system, scale=1.0):
    n = len(system.columns.coordinates)
    return State(*(scale * jax.random.normal(key, (n,)) for key in jax.random.split(KEY)))


def motion(system, samples=60, dt=0.02, start=None):
    return simulate(system, dt * jnp.arange(samples), start=start or system.protocol.start)


def stacked(build, seeds=1):
    return eqx.filter_vmap(build)(jax.random.split(KEY, seeds))


def first(models):
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, models)


@pytest.mark.parametrize("system", [MassSpring(), UNDAMPED_CHAIN], ids=["one mass", "three masses"])
def test_hnn_given_the_true_energy_is_the_true_field(system):
    n = len(system.columns.coordinates)
    mass = jax.hessian(system.kinetic, 1)(jnp.zeros(n), jnp.zeros(n))

    def energy(q, p, u):
        return 0.5 * p @ jnp.linalg.solve(mass, p) + system.potential(q)

    x = somewhere(system)
    ours, true = eqx.filter_jit(HNN.of(energy, mass))(0.0, x), system(0.0, x)
    np.testing.assert_allclose(flat(ours), flat(true), rtol=1e-12)


def test_hnn_of_one_mass_needs_no_mass():
    """Energy per unit mass gives the same motion."""
    system, x = MassSpring(), somewhere(MassSpring())
    ours = HNN(lambda q, v, u: 0.5 * v @ v + system.potential(q) / system.mass)(0.0, x)
    np.testing.assert_allclose(flat(ours), flat(system(0.0, x)), rtol=1e-13)


@pytest.mark.parametrize("build", [HNN, LNN])
def test_learned_energies_keep_themselves(build):
    """Whatever the weights: along HNN's field its energy stands still, along LNN's its `v dL/dv - L`."""
    model = build.untrained(UNDAMPED_CHAIN.columns, width=16, depth=2, key=KEY)
    x = somewhere(UNDAMPED_CHAIN, 0.5)

    def energy(x):
        if build is HNN:
            return model.hamiltonian(x.q, model.mass(3) @ x.v)
        return x.v @ jax.grad(model.lagrangian, 1)(x.q, x.v) - model.lagrangian(x.q, x.v)

    field = eqx.filter_jit(model)(0.0, x)
    rate = jax.jit(lambda x: jax.jvp(energy, (x,), (field,))[1])(x)
    assert abs(float(rate)) < 1e-5 * float(jnp.linalg.norm(flat(field)))


@pytest.mark.parametrize("system", [MassSpring(), UNDAMPED_CHAIN, DoublePendulum(), CartPole()], ids=type)
def test_lnn_given_the_true_lagrangian_is_the_true_acceleration(system):
    x = somewhere(system)
    ours = eqx.filter_jit(LNN(lambda q, v, u: system.lagrangian(q, v)))(0.0, x).v
    np.testing.assert_allclose(ours, system.acceleration(0.0, x), rtol=1e-6)


def test_lnn_without_inertia_stays_finite():
    flat_lagrangian = LNN(lambda q, v, u: jnp.sum(q) + 0.0 * jnp.sum(v))
    assert np.all(np.isfinite(flat_lagrangian.acceleration(0.0, somewhere(DoublePendulum()))))


LOOPS = {
    "rk4": (RK4, ForcedCartPole()),
    "stormer_verlet": (STORMER_VERLET, ForcedCartPole()),
    # Yoshida's inner steps leave the interval, where a window knows no inputs: without them.
    "yoshida4": (YOSHIDA4, DoublePendulum()),
    "adjoint": (AdjointRK4("recursive_checkpoint"), ForcedCartPole()),
}


@pytest.mark.parametrize(
    ("loop", "length"), [("rk4", 1), ("rk4", 3), ("stormer_verlet", 1), ("yoshida4", 3), ("adjoint", 3)]
)
def test_mbd_node_with_the_true_field_has_no_loss(loop, length):
    """On data made by the scheme in the loop; no mass is told to anybody."""
    solver, system = LOOPS[loop]
    ts = 0.01 * jnp.arange(8)
    pushes = jnp.sin(3 * ts)[:, None] if system.columns.external else None
    control = None if pushes is None else LinearHold(ts, pushes)
    x = rollout(system, system.protocol.start, ts, control=control, solver=solver)
    data = Trajectory(ts, x, pushes, columns=system.columns)
    samples = windows([Recording("0", data, data)], length)
    losses = jax.jit(jax.vmap(lambda window: TrajectoryLoss(solver)(system, window)))(samples)
    assert losses.shape == (8 - length,)
    assert float(jnp.max(losses)) < 1e-24


def test_hamiltons_loss_of_the_true_field_is_nothing():
    system, x = MassSpring(), somewhere(MassSpring())
    assert float(HamiltonLoss()(system, Labelled(jnp.array(0.0), x, None, system.acceleration(0.0, x)))) < 1e-24


def test_windows_never_cross_trajectories():
    rows = jnp.arange(9.0)[:, None]
    one = Trajectory(0.02 * jnp.arange(9), State(rows, -rows), columns=MassSpring.columns)
    two = Trajectory(0.02 * jnp.arange(6), State(rows[:6] + 70.0, rows[:6]), columns=MassSpring.columns)
    cut = windows([Recording("a", one, one[:5]), Recording("b", two, two), Recording("c", one, None)], 2)
    assert cut.ts.shape == (3 + 4, 3)
    np.testing.assert_array_equal(cut.x.q[:3, :, 0], [one.x.q[k : k + 3, 0] for k in range(3)])
    np.testing.assert_array_equal(cut.x.q[3:, :, 0], [two.x.q[k : k + 3, 0] for k in range(4)])
    np.testing.assert_allclose(cut.ts, np.broadcast_to([0.0, 0.02, 0.04], (7, 3)), atol=1e-15)
    with pytest.raises(InputError, match="set window to at most 5"):
        windows([Recording("b", two, two)], 6)


@pytest.fixture(scope="module")
def slope():
    """The gradient of a loss through some solver."""
    field = FNODE.untrained(MassSpringDamper.columns, width=5, depth=1, key=KEY)
    data = motion(MassSpringDamper(), 4, dt=0.01)

    @functools.cache
    def found(solver):
        gradient = eqx.filter_jit(eqx.filter_grad(lambda field: TrajectoryLoss(solver)(field, data)))(field)
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient.network)])

    return found


@pytest.mark.parametrize("name", ADJOINTS)
def test_every_adjoint_gives_the_gradient_of_the_steps(slope, name):
    """`backsolve` that of the exact motion: the same to the order of the scheme."""
    steps = slope(RK4)
    np.testing.assert_allclose(slope(AdjointRK4(name)), steps, atol=1e-8 * np.abs(steps).max())


def test_an_lstm_cell_is_torchs_equation():
    """Two steps of one layer written out by hand."""
    model = LSTM.untrained(MassSpring.columns, width=3, depth=1, window=2, key=KEY)
    layer, xs = model.layers[0], jax.random.normal(KEY, (2, 2))
    h = c = np.zeros(3)
    for x in np.asarray(xs):
        gates = np.asarray(layer.inputs) @ x + np.asarray(layer.recurrent) @ h + np.asarray(layer.bias)
        i, f, o = (1 / (1 + np.exp(-gates[3 * k : 3 * k + 3])) for k in (0, 1, 3))
        c = f * c + i * np.tanh(gates[6:9])
        h = o * np.tanh(c)
    said = eqx.filter_jit(LSTM.following)(model, xs)
    np.testing.assert_allclose(said, np.asarray(model.readout) @ h + np.asarray(model.bias), rtol=1e-12)


def test_slopes_of_an_lstm_are_those_of_automatic_differentiation():
    """In all weights and in what goes in, over a batch: the loop back through time is written by hand."""
    layer = LSTM.untrained(MassSpring.columns, width=5, depth=1, window=7, key=KEY).layers[0]

    def plain(layer, xs):
        def turn(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(layer.inputs @ x + layer.recurrent @ h + layer.bias, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return jax.lax.scan(turn, (jnp.zeros(5), jnp.zeros(5)), xs)[1]

    def slopes(said):
        def loss(layer, windows):
            return jnp.sum(jnp.sin(jax.vmap(said, (None, 0))(layer, windows)))  # every sample counts, in its own way

        return jax.jit(jax.value_and_grad(loss, (0, 1)))(layer, jax.random.normal(KEY, (4, 7, 2)))

    ours, theirs = jax.tree.leaves(slopes(Layer.__call__)), jax.tree.leaves(slopes(plain))
    assert len(ours) == 5
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-13)


def test_an_lstm_repeats_its_warm_up_and_then_reads_its_own_answers():
    model = LSTM.untrained(MassSpring.columns, width=4, depth=2, window=5, key=KEY)
    data = motion(MassSpring(), 9)
    predicted = eqx.filter_jit(model.predict)(data[:5], data.ts)
    np.testing.assert_array_equal(predicted.q[:5], data.x.q[:5])
    following = jax.jit(lambda before: model.following(model.shown(before)))
    for k in range(5, 9):
        before = State(predicted.q[k - 5 : k], predicted.v[k - 5 : k])
        np.testing.assert_allclose(flat(predicted)[k], following(before), rtol=1e-10)
    with pytest.raises(InputError, match="needs 5 samples"):
        model.predict(data[:4], data.ts)


def test_an_fcnn_memorises_its_training_part():
    data = dataclasses.replace(motion(MassSpringDamper(), 30, dt=0.05), a=None)
    scalers = {"features": Scaler.of(data.ts[:, None]), "targets": Scaler.of(data.states)}
    models = stacked(lambda key: FCNN.untrained(MassSpringDamper.columns, width=64, depth=2, key=key, **scalers))
    adam = Adam(learning_rate=1e-2, decay=0.998)
    fitted = fit(models, InstantLoss(), data, adam, epochs=2500, batch=15, keys=jax.random.split(KEY, 1))
    error = flat(predict(first(fitted.models), data[:1], data.ts)) - data.states
    assert float(jnp.sqrt(jnp.mean(error**2))) < 1e-3 * float(jnp.max(jnp.abs(data.states)))


def test_an_lstm_memorises_its_training_part():
    data = motion(MassSpringDamper(), 24, dt=0.1)
    samples = windows([Recording("0", data, data)], 4)
    size = {"width": 16, "depth": 1, "window": 4, "states": Scaler.of(data.states)}
    models = stacked(lambda key: LSTM.untrained(MassSpringDamper.columns, **size, key=key))
    adam = Adam(learning_rate=1e-2, decay=0.997)
    fitted = fit(models, NextStateLoss(), samples, adam, epochs=2000, batch=5, keys=jax.random.split(KEY, 1))
    model = first(fitted.models)
    losses = jax.jit(jax.vmap(lambda window: NextStateLoss()(model, window)))(samples)
    assert float(jnp.sqrt(jnp.mean(losses))) < 1e-3  # in units of each column's spread


@pytest.fixture(scope="module", params=METHODS)
def learned(request):
    """A small model of every kind, from a file's trajectory of the undamped oscillator."""
    data = motion(MassSpring(), 40)
    settings = {**SMALL, "windows": {"window": 6 if request.param == "lstm" else 2}}
    return fnode.learn(data, model=request.param, **settings), data


def test_every_model_saves_and_loads_to_equality(learned, tmp_path):
    model, data = learned
    model.save(tmp_path)
    loaded = fnode.load(tmp_path)
    ours, theirs = (jax.tree.leaves(eqx.filter(m.members, eqx.is_array)) for m in (model, loaded))
    assert len(ours) > 0
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(model.simulate(data).states, loaded.simulate(data).states)


def test_every_model_jits_and_vmaps(learned):
    model, data = learned
    forecaster = model.forecaster()
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), data)
    together = eqx.filter_jit(eqx.filter_vmap(lambda past: forecaster.predict(past, past.ts)))(two)
    np.testing.assert_allclose(flat(together)[1], model.simulate(data).states, rtol=1e-4, atol=1e-5)


def test_forecasters_are_no_fields(learned):
    model, data = learned
    if isinstance(model.members[0], AbstractForecaster):
        with pytest.raises(InputError, match="no rate of change"):
            model(0.0, data.start)
    else:
        assert isinstance(model.member(), AbstractField)


def test_an_lstm_is_told_what_it_cannot_do(learned):
    model, data = learned
    if model.config.model != "lstm":
        pytest.skip("only an lstm goes from sample to sample")
    with pytest.raises(InputError, match="needs 6 samples of the past, got 3"):
        model.simulate(data[:3], until=1.0)
    with pytest.raises(InputError, match=r"trained at, 0.02 s, got 0.04 s"):
        model.simulate(data, until=1.0, dt=0.04)
    np.testing.assert_allclose(model.simulate(data[:6], until=1.2).states[:40], model.simulate(data).states, rtol=1e-6)


def test_uneven_samples_are_no_windows_for_an_lstm():
    data = motion(MassSpring(), 40)
    uneven = eqx.tree_at(lambda d: d.ts, data, data.ts.at[5].add(0.01))
    with pytest.raises(InputError, match="even samples"):
        fnode.learn(uneven, model="lstm", **SMALL, windows={"window": 4})


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", SYSTEMS)
def test_every_recipe_is_a_configuration(name, kind):
    for recipe in ("paper", "paper_code"):
        config = resolved({"model": name, "system": kind}, recipe, kind)
        assert config.training.batch == "all" or config.training.batch >= 1
        assert (config.windows.window == 16) == (name == "lstm")


def test_the_recipes_are_the_papers_tables():
    epochs = {"fnode": 450, "mbd_node": 300, "lstm": 300, "fcnn": 450, "hnn": 30_000, "lnn": 400}
    for name, number in epochs.items():
        assert validated({"model": name, **recipe_values("paper", "mass_spring", name)}).training.epochs == number
    assert recipe_values("paper", "cart_pole", "mbd_node")["training"]["epochs"] == 400
    assert recipe_values("paper", "double_pendulum", "fcnn")["training"]["learning_rate"] == 3e-3
    assert recipe_values("paper", "slider_crank", "lstm")["network"]["depth"] == 3


@pytest.mark.parametrize(
    ("name", "system", "why"),
    [
        ("hnn", MassSpringDamper(), "damped"),
        ("hnn", DoublePendulum(), "mass matrix depends"),
        ("hnn", CartPole(), "mass matrix depends"),
        ("hnn", ForcedCartPole(), r"inputs \(u\)"),
        ("hnn", SliderCrank(), "damped"),
        ("lnn", TripleMassSpringDamper(), "damped"),
        ("lnn", ForcedCartPole(), "do work"),
    ],
)
def test_where_a_model_does_not_apply_it_says_why(name, system, why):
    with pytest.raises(InputError, match=why):
        check_method(validated({"model": name}), system.columns, system)


def test_a_model_applies_where_its_physics_holds():
    assert has_constant_mass(UNDAMPED_CHAIN)
    for name, system in [("hnn", MassSpringDamper(damping=0.0)), ("hnn", UNDAMPED_CHAIN), ("lnn", DoublePendulum())]:
        assert check_method(validated({"model": name}), system.columns, system) is None
    unknown = check_method(validated({"model": "hnn"}), Columns((Column("x"),)), None)
    assert unknown is not None
    assert "assumes that energy is conserved" in unknown


@pytest.mark.parametrize("name", ["lstm", "fcnn"])
def test_inputs_and_parameters_reach_forecasters(name):
    """Another input, another answer."""
    data = dataclasses.replace(motion(CartPole(), 9), u=jnp.zeros((9, 1)), columns=ForcedCartPole.columns)
    size = {"width": 4, "depth": 1, "key": KEY} | ({"window": 4} if name == "lstm" else {})
    model = {"lstm": LSTM, "fcnn": FCNN}[name].untrained(ForcedCartPole.columns, **size)
    answer = jax.jit(lambda push: flat(predict(model, data[:4], data.ts, Constant(push[None]))))
    calm, pushed = answer(jnp.array(0.0)), answer(jnp.array(8.0))
    assert float(jnp.min(jnp.abs(calm - pushed)[4:])) > 0


def test_the_score_of_an_lstm_tells_what_it_was_given():
    settings = {"system": "mass_spring", "model": "lstm", "data": {"steps": 40, "train": 30}, **SMALL}
    config = resolved({**settings, "windows": {"window": 6}}, "paper", "mass_spring")
    figures = scores(run(config, prepare(config)))
    entry = figures["seeds"][0]
    assert figures["labels"] is None
    assert figures["structure"] is None
    assert entry["mse_free"]["warm_up"] == 6
    assert entry["mse_free"]["full"] == pytest.approx(entry["mse"]["full"] * 40 / 34)
    assert entry["mse_free"]["train"] == pytest.approx(entry["mse"]["train"] * 30 / 24)
    assert entry["mse_free"]["test"] == pytest.approx(entry["mse"]["test"])


def test_constraints_on_accelerations_are_unknown_to_a_forecaster():
    circle = Holonomic(lambda q: q @ q - 1.0)
    x = State(jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]]))
    found = residuals(circle, Trajectory(jnp.zeros(1), x, columns=Columns((Column("x"), Column("y")))))
    np.testing.assert_array_equal(found, [0.0, 0.0, np.nan])


def test_training_through_the_integrator_learns_the_motion():
    """A small MBD-NODE foretells its own training part far better than standing still would."""
    data = motion(MassSpringDamper(), 50, dt=0.05)
    settings = {"network": {"width": 24}, "training": {"epochs": 150, "batch": 8, "learning_rate": 1e-2}}
    model = fnode.learn(data, model="mbd_node", data={"split": 1.0}, windows={"window": 2}, **settings)
    error = jnp.mean((model.simulate(data).states - data.states) ** 2)
    assert float(error) < 0.02 * float(jnp.mean((data.states - data.states[0]) ** 2))
