"""Laws of control: linear models, the quadratic programme against other solvers, closed loops, what is refused."""

import contextlib
import io
import json
import math
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from fnode import io as fnode_io
from fnode.cli import main
from fnode.control import (
    MPC,
    AlongPlan,
    AtPoint,
    AtState,
    Balance,
    HorizonQP,
    InfeasibleError,
    Problem,
    closed_loop,
    discretise,
    field_plant,
    hanging,
    linearise,
    swing_up,
)
from fnode.control.linearise import Affine, interval_model
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.learn import learn
from fnode.model import Model
from fnode.solvers import TIGHT
from fnode.systems import CartPole, ForcedCartPole, recordings
from fnode.trajectory import State

CART_POLE = ForcedCartPole()
LINEARISATIONS = {"fixed": AtPoint, "state": AtState, "plan": AlongPlan}


class LinearField(AbstractField):
    """`dz/dt = a z + b u + c`, with two coordinates, and velocities that are not their rates."""

    a: jax.Array
    b: jax.Array
    c: jax.Array

    def __call__(self, t, x, u=None):
        rate = self.a @ jnp.concatenate([x.q, x.v]) + self.b @ u + self.c
        return State(rate[:2], rate[2:])


def linear_field(seed=0, n=4, m=2, *, drift=1.0):
    draw = np.random.default_rng(seed).normal
    return LinearField(
        jnp.asarray(draw(size=(n, n))), jnp.asarray(draw(size=(n, m))), jnp.asarray(drift * draw(size=n))
    )


def weight(seed, n):
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T + 0.1 * np.eye(n)


def problem(n=4, m=2, **changes):
    usual = {"dt": 0.1, "horizon": 12, "state_weight": weight(1, n), "input_weight": weight(2, m)}
    return Problem(**{**usual, **changes})


def box(*limits):
    high = np.array(limits, float)
    return -high, high


def dense_kkt(problem, model, z, states, inputs):
    """The equality-constrained optimum from one dense linear system: an oracle without any solver."""
    n, m, stages = problem.states, problem.inputs, problem.horizon
    size = stages * (n + m)  # all inputs, then all states
    end = np.zeros((n, n)) if problem.end_weight is None else problem.end_weight
    weights = [problem.input_weight] * stages + [problem.state_weight] * (stages - 1) + [end]
    hessian = 2 * scipy.linalg.block_diag(*weights)
    gradient = -hessian @ np.concatenate([inputs.ravel(), states[1:].ravel()])
    rows = np.zeros((stages * n, size))
    right = np.array([model.c] * stages, float).ravel()
    for k in range(stages):
        here = slice(k * n, (k + 1) * n)
        rows[here, k * m : (k + 1) * m] = -np.asarray(model.b)
        rows[here, stages * m + k * n : stages * m + (k + 1) * n] = np.eye(n)
        if k:
            rows[here, stages * m + (k - 1) * n : stages * m + k * n] = -np.asarray(model.a)
    right[:n] += np.asarray(model.a) @ z
    if problem.terminal:
        last = np.zeros((n, size))
        last[:, -n:] = np.eye(n)
        rows, right = np.concatenate([rows, last]), np.concatenate([right, states[-1]])
    kkt = np.block([[hessian, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    return np.linalg.solve(kkt, np.concatenate([-gradient, right]))[: stages * m].reshape(stages, m)


def osqp_solution(qp):
    """The same quadratic programme by a solver of another kind (operator splitting, polished)."""
    osqp = pytest.importorskip("osqp")
    size = len(qp.c)
    parts = [qp.a, scipy.sparse.eye(size)] + ([] if qp.g is None else [qp.g])
    low = np.concatenate([qp.b, qp.low] + ([] if qp.g is None else [qp.g_low]))
    high = np.concatenate([qp.b, qp.high] + ([] if qp.g is None else [qp.g_high]))
    solver = osqp.OSQP()
    settings = {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 200_000, "polishing": True, "verbose": False}
    matrix = scipy.sparse.csc_matrix(scipy.sparse.vstack(parts))
    solver.setup(scipy.sparse.triu(qp.p, format="csc"), qp.c, matrix, low, high, **settings)
    return solver.solve(raise_error=True).x


# Linear models


def test_the_cart_poles_linear_model_is_the_appendixs():
    """For masses that differ: the paper's code has `m` in a place of `M`."""
    cart, pole, length, g = 1.3, 0.4, 0.7, 9.81
    system = ForcedCartPole(cart=cart, pole=pole, length=length, gravity=g)
    model = linearise(system, State(jnp.zeros(2), jnp.zeros(2)), jnp.zeros(1))
    a = np.zeros((4, 4))
    a[0, 2] = a[1, 3] = 1
    a[2, 1], a[3, 1] = -pole * g / cart, (cart + pole) * g / (cart * length)
    np.testing.assert_allclose(model.a, a, atol=1e-12)
    np.testing.assert_allclose(model.b[:, 0], [0, 0, 1 / cart, -1 / (cart * length)], atol=1e-12)
    np.testing.assert_allclose(model.c, 0, atol=1e-12)


def test_what_a_linear_model_leaves_out_is_of_second_order():
    x, u = State(jnp.array([0.3, 2.0]), jnp.array([1.0, -2.0])), jnp.array([3.0])
    model = linearise(CART_POLE, x, u)
    direction = np.array([0.4, -0.7, 0.3, 0.5])

    def error(step):
        z = jnp.concatenate([x.q, x.v]) + step * direction
        rate = CART_POLE(0.0, State(z[:2], z[2:]), u + step)
        return np.linalg.norm(jnp.concatenate([rate.q, rate.v]) - (model.a @ z + model.b @ (u + step) + model.c))

    assert math.log2(error(2e-3) / error(1e-3)) == pytest.approx(2, abs=0.02)


def test_the_exact_discretisation_is_the_motion_under_a_held_input():
    field, z, u, dt = linear_field(), jnp.array([1.0, -0.5, 0.3, 2.0]), jnp.array([0.7, -1.1]), 0.3
    model = discretise(Affine(field.a, field.b, field.c), dt)
    motion = TIGHT.solve(field, State(z[:2], z[2:]), jnp.array([0.0, dt]), lambda t: u)
    after = jnp.concatenate([motion.q[-1], motion.v[-1]])
    np.testing.assert_allclose(model.a @ z + model.b @ u + model.c, after, atol=1e-11)


@pytest.mark.parametrize(("scheme", "order"), [("euler", 2), ("rk4", 5)])
def test_other_discretisations_approach_it_at_their_order(scheme, order):
    field = linear_field()

    def error(dt):
        exact = discretise(Affine(field.a, field.b, field.c), dt)
        found = interval_model(field, dt, scheme=scheme)(jnp.ones(4), jnp.ones(2))
        return sum(np.linalg.norm(one - other) for one, other in zip(found, exact, strict=True))

    assert math.log2(error(0.04) / error(0.02)) == pytest.approx(order, abs=0.15)


# The quadratic programme


@pytest.mark.parametrize("linearisation", LINEARISATIONS)
@pytest.mark.parametrize(
    ("scheme", "changes"),
    [
        ("euler", {}),
        ("exact", {}),
        ("rk4", {"terminal": True}),
        ("euler", {"end_weight": weight(3, 4)}),
        ("euler", {"horizon": 1}),
    ],
)
def test_on_a_linear_plant_the_inputs_are_the_dense_solution(changes, scheme, linearisation):
    field, asked = linear_field(), problem(**changes)
    z = np.array([1.0, -0.5, 0.3, 2.0])
    wanted = np.array([0.2, 0.1, -0.3, 0.4])
    kind = LINEARISATIONS[linearisation]
    where = kind(drifting=True) if kind is AtPoint else kind()
    controller = MPC(
        field,
        asked,
        linearisation=where,
        scheme=scheme,
        reference=lambda ts: np.tile(wanted, (len(ts), 1)),
        input_reference=np.array([0.3, -0.2]),
    )
    model = interval_model(field, asked.dt, scheme=scheme)(jnp.zeros(4), jnp.zeros(2))
    states = np.tile(wanted, (asked.horizon + 1, 1))
    inputs = np.tile([0.3, -0.2], (asked.horizon, 1))
    for start in (z, -2 * z):  # the second step updates in place
        u = controller.step(start)
        np.testing.assert_allclose(u, dense_kkt(asked, model, start, states, inputs)[0], atol=1e-8)


@pytest.mark.parametrize("soft", [None, 50.0])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_second_solver_finds_the_same_plan(terminal, soft):
    # Tight bounds, most of them active; without `soft` they leave a solution.
    asked = problem(
        horizon=25, terminal=terminal, soft=soft, state_bounds=box(2.0, 2.0, np.inf, 2.5), input_bounds=box(3.0, 3.0)
    )
    qp = HorizonQP(asked)
    model = interval_model(linear_field(drift=0.1), asked.dt, scheme="exact")(jnp.zeros(4), jnp.zeros(2))
    stages = Affine(*(np.broadcast_to(part, (25, *part.shape)) for part in model))
    for scale in (0.5, 1.0):
        z = scale * np.array([1.5, -1.0, 0.5, 2.0])
        qp.update(stages, z, np.zeros((26, 4)), np.zeros((25, 2)))
        states, inputs = qp.solve()
        other = osqp_solution(qp.qp)[: 25 * 6].reshape(25, 6)
        np.testing.assert_allclose(inputs, other[:, :2], atol=1e-5)
        np.testing.assert_allclose(states, other[:, 2:], atol=1e-5)
    assert np.any(np.abs(inputs) > 3 - 1e-6)


def test_updating_in_place_equals_setting_up_anew():
    asked = problem(state_bounds=box(2, 2, 2, 2), input_bounds=box(4, 4), soft=30.0, terminal=True)
    reused = HorizonQP(asked)
    for seed in range(3):
        draw = np.random.default_rng(seed).normal
        models = Affine(np.eye(4) + 0.1 * draw(size=(12, 4, 4)), 0.1 * draw(size=(12, 4, 2)), 0.1 * draw(size=(12, 4)))
        numbers = models, draw(size=4), draw(size=(13, 4)), draw(size=(12, 2))
        fresh = HorizonQP(asked)
        for qp in (reused, fresh):
            qp.update(*numbers)
        for one, other in zip(reused.solve(), fresh.solve(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-8)


# Closed loops


class Mass(AbstractField):
    """A unit mass pushed by a force: a linear plant whose bounds are easily made active."""

    def __call__(self, t, x, u=None):
        return State(x.v, u)


def mass_loop(steps=60, start=(5.0, 0.0), **changes):
    asked = problem(
        2,
        1,
        horizon=30,
        state_weight=np.eye(2),
        input_weight=0.1 * np.eye(1),
        **{"state_bounds": box(10.0, 1.0), "input_bounds": box(0.8), **changes},
    )
    controller = MPC(Mass(), asked)
    return closed_loop(controller, field_plant(Mass(), asked.dt), np.array(start), steps=steps)


def test_active_bounds_hold_in_closed_loop():
    loop = mass_loop()
    speed, force = np.abs(loop.states[:, 1]), np.abs(loop.inputs[:, 0])
    assert speed.max() <= 1 + 1e-9
    assert force.max() <= 0.8
    assert np.sum(speed > 1 - 1e-6) > 20
    assert np.sum(force > 0.8 - 1e-6) > 5


def test_soft_bounds_with_a_high_price_are_hard_where_they_can_be():
    hard, soft = mass_loop(), mass_loop(soft=1e3)
    np.testing.assert_allclose(hard.states, soft.states, atol=1e-6)


def test_where_bounds_cannot_be_kept_they_stop_the_loop_or_give_way():
    start = (9.99, 0.9)
    with pytest.raises(InfeasibleError, match=r"step 0 \(t = 0 s\): .*soft"):
        mass_loop(start=start)
    loop = mass_loop(start=start, soft=1e3, steps=160)
    assert 10 < loop.states[:, 0].max() < 11
    assert loop.settling_time(within=0.1) is not None


def test_a_reference_is_followed_with_foresight():
    asked = problem(2, 1, horizon=40, state_weight=np.diag([10.0, 0.0]), input_weight=1e-3 * np.eye(1))

    def wave(ts):
        return np.stack([np.sin(ts), np.cos(ts)], axis=1)

    loop = closed_loop(
        MPC(Mass(), asked, reference=wave), field_plant(Mass(), asked.dt), wave(np.zeros(1))[0], steps=80
    )
    assert np.abs(loop.states - wave(loop.ts))[:, 0].max() < 0.01


def test_the_plan_of_the_nonlinear_variant_is_a_motion_of_the_field():
    asked = Problem(
        dt=0.05, horizon=40, state_weight=np.eye(4), input_weight=0.1 * np.eye(1), input_bounds=box(20.0), terminal=True
    )
    controller = MPC(CART_POLE, asked, linearisation=AlongPlan(first_rounds=25), scheme="rk4")
    controller.step(np.array([0.5, 0.5, 0.0, 0.0]))
    states, inputs = controller.plan.states[:-1], controller.plan.inputs[:-1]
    step = field_plant(CART_POLE, asked.dt, substeps=1)
    for before, u, after in zip(states[:-1], inputs, states[1:], strict=True):
        np.testing.assert_allclose(step(before, u), after, atol=1e-8)


@pytest.mark.parametrize(("scheme", "first"), [("euler", 28.37), ("exact", 26.70)])
def test_the_papers_cart_pole_settles(scheme, first):
    """The first input is that of the dense solution, which was computed apart from this library."""
    task = Balance(discretisation=scheme)
    loop = closed_loop(task.controller(CART_POLE), field_plant(CART_POLE, task.dt), task.start, steps=task.steps)
    assert loop.inputs[0, 0] == pytest.approx(first, abs=0.005)
    assert loop.settling_time(within=0.01) <= 7
    assert np.abs(loop.inputs).max() < 50


def test_the_cart_pole_swings_up_from_hanging():
    controller, plant = swing_up(CART_POLE), field_plant(CART_POLE, 0.05)
    for start in hanging(3, seed=7):
        loop = closed_loop(controller, plant, start, steps=120)
        assert loop.settling_time(within=0.05) is not None
        assert np.abs(loop.inputs).max() <= 20


def gymnasium_plant(dt, tau):
    """Gymnasium's cart-pole, whose pole is a uniform rod: the rod that moves as a point mass of 1 kg at 0.5 m does."""
    gymnasium = pytest.importorskip("gymnasium")
    plant = gymnasium.make("CartPole-v1").unwrapped
    plant.gravity, plant.tau = 9.81, tau
    plant.masspole, plant.length = 4 / 3, 3 / 8  # half the rod: its moment of inertia is 4/3 m l^2
    plant.masscart = 2 - plant.masspole
    plant.total_mass, plant.polemass_length = 2.0, plant.masspole * plant.length
    plant.reset(seed=0)
    plant.theta_threshold_radians = plant.x_threshold = 1e9

    def advance(z, u):
        plant.state = z[[0, 2, 1, 3]]
        plant.force_mag = abs(float(u[0]))
        for _ in range(round(dt / tau)):
            plant.step(int(u[0] > 0))
        return np.array(plant.state, float)[[0, 2, 1, 3]]

    return advance


def test_an_independent_plant_agrees_and_is_balanced():
    z, u = np.array([0.3, 0.5, -0.4, 1.0]), np.array([7.0])
    truth = field_plant(CART_POLE, 0.05)(z, u)
    coarse, fine = (np.abs(gymnasium_plant(0.05, tau)(z, u) - truth).max() for tau in (0.002, 0.001))
    assert coarse / fine == pytest.approx(2, rel=0.1)  # its Euler steps converge to our plant, at first order
    task = Balance()
    loop = closed_loop(task.controller(CART_POLE), gymnasium_plant(task.dt, 0.001), task.start, steps=task.steps)
    assert loop.settling_time(within=0.01) <= 7


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon of 0"),
        ({"dt": 0.0}, "dt > 0"),
        ({"soft": -1.0}, "penalty"),
        ({"state_weight": np.array([[1.0, 0.5], [0.0, 1.0]])}, "state_weight is not symmetric"),
        ({"state_weight": np.diag([1.0, -1.0])}, "state_weight has the eigenvalue -1"),
        ({"input_weight": np.zeros((1, 1))}, "input_weight has the eigenvalue 0"),
        ({"end_weight": np.eye(3)}, "end_weight is 3 x 3"),
        ({"state_bounds": box(1.0)}, "need 2 of each"),
        ({"input_bounds": (np.ones(1), -np.ones(1))}, "lower < upper"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(InputError, match=message) as told:
        problem(**{"n": 2, "m": 1, **changes})
    assert "\n" not in str(told.value)


def test_bounds_that_exclude_the_start_are_named():
    with pytest.raises(InputError, match=r"state 1 = 3 is not within \[-1, 1\]"):
        mass_loop(start=(0.0, 3.0))
    with pytest.raises(InputError, match=r"theta = 2 is not within"):
        Balance.of({"theta": 2.0})


def test_a_model_that_cannot_be_steered_is_refused():
    with pytest.raises(InputError, match="does not feel its input 0"):
        MPC(CartPole(), Balance().problem)
    with pytest.raises(InputError, match="does not take 4 states and 1 inputs"):
        MPC(linear_field(m=2), Balance().problem)


# The command

QUICK = (
    "--recipe",
    "paper",
    "--set",
    "epochs=200",
    "--set",
    "width=16",
    "--set",
    "steps=30",
    "--swing-ups",
    1,
    "--no-compare-labels",
)


def fnode(*words):
    """Run the command in this process: its exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["fnode", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
    return stop.value.code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    """A control run with a roughly trained model."""
    folder = tmp_path_factory.mktemp("control") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fnode.systems.cart_pole.LEARNED", 10)
        patch.setattr("fnode.systems.cart_pole.HELD_OUT", 0)
        code, _, err = fnode("control", "cart_pole", *QUICK, "-o", folder)
    assert code == 0, err
    return folder


def test_a_control_run_keeps_its_model_and_says_how_it_went(controlled):
    names = {path.name for path in controlled.iterdir()}
    assert names == {"config.toml", "scores.json", "prediction.csv", "run.log", "report.html", "model"}
    scores = json.loads((controlled / "scores.json").read_text())
    own = json.loads((controlled / "model/scores.json").read_text())
    assert set(scores) == set(own)
    assert own["control"] is None
    assert scores["seeds"] is None
    analytic, learned = (scores["control"][name] for name in ("analytic", "learned"))
    assert analytic["first_input"] == pytest.approx(28.37, abs=0.005)
    assert (analytic["linearisation"]["error_a"], analytic["linearisation"]["error_b"]) == (0, 0)
    upright = linearise(Model.load(controlled / "model").member(), State(jnp.zeros(2), jnp.zeros(2)), jnp.zeros(1))
    np.testing.assert_allclose(learned["linearisation"]["a"], upright.a, rtol=1e-12)
    true = np.array(analytic["linearisation"]["b"])
    error = np.linalg.norm(upright.b - true) / np.linalg.norm(true)
    assert learned["linearisation"]["error_b"] == pytest.approx(error)
    assert error > 0
    assert set(learned["solve_ms"]) == {"median", "p99"}
    assert learned["swing_up"]["starts"] == 1
    motions = fnode_io.read(controlled / "prediction.csv", CART_POLE.columns)
    assert list(motions) == ["analytic", "learned"]
    assert len(motions["learned"]) == 31


def test_a_control_report_is_one_file_that_needs_no_network(controlled):
    page = (controlled / "report.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page.partition("<body>")[2])
    for words in ("Balancing", "Swing-up", "Linear models at upright", "settled after"):
        assert words in page


def test_a_finished_model_can_be_used_again_and_one_without_the_input_cannot(controlled, tmp_path):
    code, _, err = fnode(
        "control", "cart_pole", controlled / "model", *QUICK[4:], "--swing-ups", 0, "-o", tmp_path / "again"
    )
    assert code == 0, err
    first, again = (
        json.loads((run / "scores.json").read_text())["control"] for run in (controlled, tmp_path / "again")
    )
    assert first["learned"]["first_input"] == again["learned"]["first_input"]
    assert again["learned"]["swing_up"] is None
    motion = recordings(CartPole(), key=jax.random.key(0), steps=30)[0].truth
    learn(motion, network={"width": 4}, training={"epochs": 1}).save(tmp_path / "free")
    result = fnode("control", "cart_pole", tmp_path / "free", "-o", tmp_path / "no")
    refused(result, "has inputs none", "needs u", "cart_pole_forced")


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (["double_pendulum"], ["no control task for 'double_pendulum'", "cart_pole"]),
        (["rocket"], ["unknown system 'rocket'"]),
        (["cart_pole", "nowhere"], ["nowhere is not a finished run"]),
        (["cart_pole", "--set", "horizon=0"], ["horizon of 0"]),
        (["cart_pole", "--set", "horizon=2.5"], ["horizon=2.5"]),
        (["cart_pole", "--set", "theta=2"], ["theta = 2 is not within"]),
        (["cart_pole", "--set", "state_weight=1,1,1,-1"], ["state_weight has the eigenvalue -1"]),
        (["cart_pole", "--set", "state_weight=1,2"], ["state_weight has 2 numbers"]),
        (["cart_pole", "--set", "linearisation=none"], ["unknown linearisation 'none'"]),
        (["cart_pole", "--set", "u_max=1"], ["no solution", "soft"]),
        (["cart_pole", "--recipe", "none"], ["unknown recipe 'none'"]),
    ],
)
def test_what_control_refuses_leaves_nothing_behind(words, fragments, tmp_path):
    refused(fnode("control", *words, "--swing-ups", 0, "-o", tmp_path / "run"), *fragments)
    assert not (tmp_path / "run").exists()


def test_an_earlier_control_run_is_not_overwritten_by_accident(controlled):
    refused(fnode("control", "cart_pole", "-o", controlled), "exists", "--force")
    refused(fnode("control", "cart_pole", controlled / "model", "-o", controlled, "--force"), "lies inside")
    assert (controlled / "model/model.json").is_file()


def refused(result, *fragments):
    """Exit code 2, nothing on stdout, and one line on stderr that holds every fragment."""
    code, out, err = result
    assert (code, out, err.count("\n")) == (2, "", 1), err
    for fragment in fragments:
        assert fragment in err
