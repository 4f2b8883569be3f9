"""Files whose coordinates are bound by constraints, and what the flaws of files cost."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import polars
import pytest
from scipy.integrate import solve_ivp

import fnode
from fnode.analysis import bound
from fnode.cli import main
from fnode.constraints import Holonomic
from fnode.mechanisms import link, link_mechanism, reduced
from fnode.scores import residuals

EXAMPLE = Path(__file__).parents[1] / "examples/four_bar.toml"
NAMES = [f"{letter}_{body}" for body in ("crank", "coupler", "rocker") for letter in ("x", "y", "theta")]
SMALL = {"recipe": "paper", "training": {"epochs": 30, "batch": 16}, "network": {"width": 8}}
QUICK = ("--recipe", "paper", "--set", "epochs=30", "--set", "batch=16", "--set", "width=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the four-bar linkage as `fnode simulate` gives it, and its description."""
    folder = tmp_path_factory.mktemp("bars")
    (folder / "four_bar.toml").write_text(EXAMPLE.read_text())
    words = ("simulate", folder / "four_bar.toml", "--steps", 201, "-o", folder / "bars.csv")
    assert command(*words) == 0
    return folder


def command(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fnode", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
    return stop.value.code


def phi(q):
    """The four-bar linkage once more, by hand: the ends of each bar and where they meet."""
    half = (0.5, 1.5, 1.25)
    centres = [q[3 * k : 3 * k + 2] for k in range(3)]
    reach = [half[k] * jax.numpy.stack([jax.numpy.cos(q[3 * k + 2]), jax.numpy.sin(q[3 * k + 2])]) for k in range(3)]
    ground = jax.numpy.array([3.5, 0.0])
    crank, coupler, rocker = zip(centres, reach, strict=True)
    return jax.numpy.concatenate(
        [
            crank[0] - crank[1],
            crank[0] + crank[1] - coupler[0] + coupler[1],
            coupler[0] + coupler[1] - rocker[0] - rocker[1],
            rocker[0] - rocker[1] - ground,
        ]
    )


def largest(motion):
    return residuals(Holonomic(phi), motion)[:2].max()


@pytest.fixture(scope="module")
def quick(folder):
    """A run of a small network, which says nothing of accuracy."""
    (folder / "config.toml").write_text(f'[data]\nmechanism = "{folder / "four_bar.toml"}"\n')
    run = folder / "quick"
    assert command("learn", folder / "bars.csv", "--config", folder / "config.toml", *QUICK, "-o", run) == 0
    return run


def test_all_coordinates_are_foretold_and_obey(quick):
    scores = json.loads((quick / "scores.json").read_text())
    assert set(scores["seeds"][0]["rmse"]["test"]) == {"theta_crank", "d_theta_crank"}
    assert max(scores["constraint"].values()) < 1e-10
    assert scores["data"]["constraint"]["residual"] < 1e-12
    assert scores["mse_all"] is not None
    columns = polars.read_csv(quick / "prediction.csv").columns
    assert columns == ["t", *(f"{level}{name}" for level in ("", "d_", "dd_") for name in NAMES)]
    page = (quick / "report.html").read_text()
    assert "The mechanism" in page
    assert "All coordinates" in page


PENDULUM = """
[[body]]
name = "bob"
mass = 1.0
inertia = 0.2
pose = [0.8, 0.0, 0.0]

[[joint]]
type = "revolute"
bodies = ["ground", "bob"]
points = [[0.0, 0.0], [-0.8, 0.0]]
"""


def test_what_is_learned_of_a_mechanism_is_true_of_all_its_coordinates(tmp_path):
    """A pendulum by `x, y, theta` of its body: nothing is said of which is independent."""
    ts, stiffness = np.arange(0.0, 3.0, 0.01), 9.81 * 0.8 / (0.2 + 0.8**2)
    swing = solve_ivp(lambda t, z: [z[1], -stiffness * np.cos(z[0])], (0, 3), [0, 0], t_eval=ts, rtol=1e-11, atol=1e-11)
    theta, rate = swing.y
    places = {"x_bob": 0.8 * np.cos(theta), "y_bob": 0.8 * np.sin(theta), "theta_bob": theta}
    rates = {"d_x_bob": -places["y_bob"] * rate, "d_y_bob": places["x_bob"] * rate, "d_theta_bob": rate}
    (tmp_path / "pendulum.toml").write_text(PENDULUM)
    frame = polars.DataFrame({"t": ts, **places, **rates})
    model = fnode.learn(frame, mechanism=tmp_path / "pendulum.toml", training={"structures": ["library"]})
    assert [column.name for column in model.columns.coordinates] == ["theta_bob"]
    future = model.simulate(fnode.read(frame)[0])
    np.testing.assert_allclose(future.states, frame.drop("t").to_numpy(), atol=1e-4)


def test_a_saved_run_predicts_and_scores_all_coordinates(folder, quick, capsys):
    assert (quick / "mechanism.toml").read_text() == EXAMPLE.read_text()
    start = folder / "start.csv"
    start.write_text("theta_crank,d_theta_crank\n2.5,3\n-40,0\n")  # far from all that was seen, and turns away
    assert command("predict", quick, "--from", start, "--until", 0.5, "-o", folder / "future.csv") == 0
    futures = fnode.read(folder / "future.csv")
    assert [column.name for column in futures[0].columns.coordinates] == NAMES
    assert [float(future.x.q[0, 2]) for future in futures.values()] == [2.5, -40.0]
    assert max(largest(future) for future in futures.values()) < 1e-10
    capsys.readouterr()
    assert command("score", quick, folder / "bars.csv", "--json") == 0
    figures = json.loads(capsys.readouterr().out)["0"]
    scores = json.loads((quick / "scores.json").read_text())
    assert figures["mse"] == pytest.approx(scores["median"]["mse"]["full"])
    assert figures["mse_all"] == pytest.approx(scores["mse_all"])
    assert set(figures["rmse"]) == {f"{level}{name}" for level in ("", "d_") for name in NAMES}
    (quick / "mechanism.toml").write_text(EXAMPLE.read_text().replace("3.5", "3.6"))
    assert command("predict", quick, "--until", 1, "-o", folder / "never.csv") == 2
    assert "mechanism.toml is damaged" in capsys.readouterr().err
    (quick / "mechanism.toml").write_text(EXAMPLE.read_text())


def test_a_function_gives_the_same_model_as_the_file(folder, quick, tmp_path):
    bars = fnode.read(folder / "bars.csv", angles=[name for name in NAMES if name.startswith("theta")])
    model = fnode.learn(bars, constraints=phi, **SMALL)
    same = fnode.load(quick)
    future, other = (each.simulate(bars[0], until=1.5) for each in (model, same))
    np.testing.assert_allclose(future.states, other.states, rtol=1e-9, atol=1e-9)
    assert largest(future) < 1e-10
    with pytest.warns(UserWarning, match="theta_crank alone"):
        model.save(tmp_path)
    alone, again = fnode.load(tmp_path), fnode.load(tmp_path, constraints=phi)
    assert alone.simulate(bars[0][:1], until=1.0).x.q.shape[1] == 1
    np.testing.assert_array_equal(again.simulate(bars[0], until=1.5).states, future.states)
    with pytest.raises(fnode.InputError, match="leave them out"):
        fnode.load(quick, constraints=phi)


def noisy(path, noise=0.01):
    table = polars.read_csv(path).select("t", *NAMES)
    rng = np.random.default_rng(1)
    return table.with_columns(
        (polars.col(name) + noise * table[name].std() * rng.normal(size=len(table))).alias(name) for name in NAMES
    )


def test_noisy_positions_are_bound_as_well(folder, tmp_path, capsys):
    noisy(folder / "bars.csv").write_csv(tmp_path / "noisy.csv")
    mechanism = ("--set", f"mechanism={folder / 'four_bar.toml'}")
    words = ("learn", tmp_path / "noisy.csv", *mechanism, *QUICK, "--set", "labels=auto", "-o", tmp_path / "run")
    assert command(*words) == 0
    out = capsys.readouterr().out
    assert "learned:     theta_crank" in out
    assert "the data obey the constraints" in out
    scores = json.loads((tmp_path / "run/scores.json").read_text())
    assert max(scores["constraint"].values()) < 1e-10
    assert 0.001 < scores["data"]["constraint"]["share"] < 0.05
    assert scores["data"]["noise"]["dd_theta_crank"] == pytest.approx(0.01, rel=0.3)


def test_the_independent_coordinate_alone_is_enough(folder):
    """Its file says nothing of the assembly branch: the poses in the description do."""
    bars = fnode.read(folder / "bars.csv")[0]
    angle = reduced(bars, bars.columns.coordinates[2:3])
    found = link_mechanism(EXAMPLE.read_text(), angle.columns, np.asarray(angle.x.q))
    assert [column.name for column in found.columns.coordinates] == ["theta_crank"]
    assert found.misfit is None
    completed = found.complete(angle)
    assert [column.name for column in completed.columns.coordinates] == NAMES
    np.testing.assert_allclose(completed.states, bars.states, atol=1e-9)


def test_columns_match_bodies_whatever_their_marks(folder):
    text = EXAMPLE.read_text()
    for number, body in enumerate(("crank", "coupler", "rocker"), start=1):
        text = text.replace(f'"{body}"', f'"{number}"').replace(f"theta_{body}", f"theta_{number}")
    bars = fnode.read(folder / "bars.csv")[0]
    coordinates = tuple(fnode.Column(f"{letter}{number}") for number in (1, 2, 3) for letter in ("x", "y", "theta"))
    backwards = fnode.Columns(coordinates[::-1])
    found = link_mechanism(text, backwards, np.asarray(bars.x.q)[:, ::-1])
    assert [column.name for column in found.full_columns.coordinates] == [column.name for column in coordinates]
    assert [column.name for column in found.columns.coordinates] == ["theta1"]
    assert found.misfit.residual < 1e-12


def test_bound_coordinates_are_noticed_where_no_constraints_are_given(folder, tmp_path, capsys):
    small = ("--recipe", "paper", "--set", "epochs=1", "--set", "batch=50", "--set", "width=2")
    for words in (("check", folder / "bars.csv"), ("learn", folder / "bars.csv", *small, "-o", tmp_path / "run")):
        capsys.readouterr()
        assert command(*words) == 0
        assert "9 coordinates move with 1 degree of freedom in these data" in capsys.readouterr().out


@pytest.mark.parametrize(("noise", "free"), [(0.0, (2,)), (0.005, (2,)), (0.05, None)])
def test_relations_are_told_from_noise(noise, free):
    """A bob on an arm by its place and angle; another arm beside it moves on its own."""
    rng, ts = np.random.default_rng(0), np.linspace(0.0, 6.0, 400)
    angle, other = 1.5 * np.cos(2 * ts), np.sin(3.1 * ts + 0.4)
    q = np.stack([np.sin(angle), -np.cos(angle), angle, 0 * ts], axis=1)
    q = q + noise * q.std(axis=0) * rng.normal(size=q.shape)
    q[7, 1] = np.nan
    found = bound([(ts, q)], [False, False, True, False])
    assert (found and found.telling) == free
    assert bound([(ts, np.stack([angle, other], axis=1))], [True, True]) is None
    assert bound([(ts[:5], q[:5])], [False, False, True, False]) is None
    assert bound([(ts, 0 * q)], [False] * 4) is None
    waves = np.sin(ts[::30, None] * np.arange(1, 10) / 3 + np.arange(9))
    assert bound([(ts[::30], waves)], [False] * 9) is None, "fourteen samples of nine coordinates obey anything"


def test_pivoting_takes_a_coordinate_that_never_turns_back(folder):
    bars = fnode.read(folder / "bars.csv")[0]
    found = link(Holonomic(phi), bars.columns, np.asarray(bars.x.q))
    assert [column.name for column in found.columns.coordinates] == ["theta_crank"]
    np.testing.assert_allclose(found.complete(reduced(bars, found.columns.coordinates)).x.q, bars.x.q, atol=1e-9)


def test_repeated_constraints_do_no_harm(folder):
    bars = fnode.read(folder / "bars.csv")[0]
    twice = Holonomic(lambda q: jax.numpy.concatenate([phi(q), phi(q)[::-1]]))
    found = link(twice, bars.columns, np.asarray(bars.x.q))
    assert [column.name for column in found.columns.coordinates] == ["theta_crank"]
    free, fixed = found.partition.split(twice.jacobian(bars.x.q[0]))
    assert np.linalg.matrix_rank(fixed) == len(NAMES) - free.shape[1]


def test_another_mechanism_is_told(folder, tmp_path):
    (tmp_path / "long.toml").write_text(EXAMPLE.read_text().replace("[3.5, 0.0]", "[4.2, 0.0]"))
    with pytest.warns(UserWarning, match="do not obey"):
        model = fnode.learn(folder / "bars.csv", mechanism=tmp_path / "long.toml", **SMALL)
    assert model.linkage.lines()[1].startswith("warning:     the data do not obey the constraints")


def test_bad_input_is_one_line_and_leaves_no_trace(folder, tmp_path, capsys):
    table = polars.read_csv(folder / "bars.csv")
    ghost = {"x_ghost": table["x_crank"], "d_x_ghost": table["d_x_crank"]}
    table.with_columns(**ghost).write_csv(tmp_path / "ghost.csv")
    table.select("t", "x_coupler", "y_coupler", "d_x_coupler", "d_y_coupler").write_csv(tmp_path / "part.csv")
    text = EXAMPLE.read_text()
    (tmp_path / "torn.toml").write_text(text + "[[joint")
    (tmp_path / "soup.toml").write_text(text + "[[soup]]\n")
    joint = '[[joint]]\nname = "{}"\ntype = "fixed"\nbodies = ["ground", "{}"]\npoints = [[{}, 9.0], [0.0, 0.0]]\n'
    contradictory = joint.format("a", "crank", 7.0) + joint.format("b", "crank", 8.0)
    (tmp_path / "contradictory.toml").write_text(text + contradictory)
    (tmp_path / "stiff.toml").write_text(
        text + '[[joint]]\nname = "weld"\ntype = "fixed"\nbodies = ["crank", "coupler"]\n'
    )
    bars, four_bar = folder / "bars.csv", folder / "four_bar.toml"
    for words, fragments in (
        ((tmp_path / "ghost.csv", "--set", f"mechanism={four_bar}"), ("x_ghost", "it has x_crank", "the data have")),
        ((tmp_path / "part.csv", "--set", f"mechanism={four_bar}"), ("x_coupler, y_coupler cannot stand for all",)),
        ((bars, "--set", "mechanism=nowhere.toml"), ("nowhere.toml",)),
        ((bars, "--set", f"mechanism={tmp_path / 'torn.toml'}"), ("torn.toml", "TOML")),
        ((bars, "--set", f"mechanism={tmp_path / 'soup.toml'}"), ("soup.toml", "soup")),
        ((bars, "--set", f"mechanism={bars}"), ("bars.csv",)),
        ((bars, "--set", f"mechanism={tmp_path / 'contradictory.toml'}"), ("contradict",)),
        ((bars, "--set", f"mechanism={tmp_path / 'stiff.toml'}"), ("stiff.toml",)),
        (("slider_crank", "--set", f"mechanism={four_bar}"), ("slider_crank", "for files")),
    ):
        code = command("learn", *words, *QUICK, "-o", tmp_path / "run")
        printed = capsys.readouterr()
        assert (code, printed.out, printed.err.count("\n")) == (2, "", 1), printed
        for fragment in fragments:
            assert fragment in printed.err
        assert not (tmp_path / "run").exists()
    for wrong in (lambda q: q[:3] @ q, lambda q: q[:, None]):
        with pytest.raises(fnode.InputError, match=r"the constraints .* x_crank"):
            fnode.learn(bars, constraints=wrong, **SMALL)
    with pytest.raises(fnode.InputError, match="give one of them"):
        fnode.learn(bars, constraints=phi, mechanism=four_bar, **SMALL)


def test_what_noise_and_gaps_cost_is_told(tmp_path, capsys):
    """Positions alone, 1 % of noise, every fifth sample missing: one half as rows not there, the other as no values."""
    assert command("simulate", "double_pendulum", "--noise", 0.01, "--steps", 300, "-o", tmp_path / "all.csv") == 0
    table = polars.read_csv(tmp_path / "all.csv").select("t", "theta1", "theta2").with_row_index()
    there = polars.col("index") % 10 != 4
    empty = [polars.when(there).then(polars.col(name)).alias(name) for name in ("theta1", "theta2")]
    rows = table.with_columns(empty).filter(polars.col("index") % 10 != 9).drop("index")
    rows.write_csv(tmp_path / "swing.csv")
    words = ("learn", tmp_path / "swing.csv", *QUICK, "--set", "labels=auto", "-o", tmp_path / "run")
    assert command(*words) == 2
    assert "gaps=bridge" in capsys.readouterr().err
    assert command(*words, "--set", "gaps=bridge") == 0
    assert "20 % of the samples missing; accelerations off by about" in capsys.readouterr().out
    data = json.loads((tmp_path / "run/scores.json").read_text())["data"]
    assert data["missing"] == pytest.approx(0.2, abs=0.005)
    for noise in data["noise"].values():
        assert noise == pytest.approx(0.01, rel=0.3)
    assert all(0 < error < 1 for error in data["label_error"].values())
