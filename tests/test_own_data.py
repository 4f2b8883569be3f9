"""A user's own data through the command: checked, learned from, predicted with; Python gives the same numbers."""

import json
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars
import pytest

import fnode
from fnode.analysis import quality
from fnode.cli import main
from fnode.errors import InputError
from fnode.signals import ZeroOrderHold
from fnode.solvers import rollout

MEASURED = Path(os.environ.get("FNODE_MEASURED", Path(__file__).parents[2] / "shared/data/multiarm"))
QUICK = ("--recipe", "paper", "--set", "epochs=2", "--set", "width=4")


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["fnode", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def recorded(count=300, dt=0.02, runs=3):
    """Swings of a driven oscillator with names of its own: angle, rate, drive, and a stiffness for each run."""
    ts = np.arange(count) * dt
    parts = []
    for k in range(runs):
        w = 2.0 + 0.2 * k
        values = {"winkel": np.cos(w * ts), "rate": -w * np.sin(w * ts), "kraft": np.sin(ts), "feder": w**2 + 0 * ts}
        names = {"versuch": [f"r{k}"] * count, "satz": ["test" if k == 2 else "train"] * count}
        parts.append(polars.DataFrame({"zeit": ts, **values, **names}))
    return polars.concat(parts)


ROLES = (
    *("--set", "time=zeit", "--set", "coordinates=winkel", "--set", "velocities=rate", "--set", "inputs=kraft"),
    *("--set", "parameters=feder", "--set", "trajectory=versuch", "--set", "split=satz", "--set", "angles=winkel"),
)
TOML = """
[data]
time = "zeit"
coordinates = ["winkel"]
velocities = ["rate"]
inputs = ["kraft"]
parameters = ["feder"]
trajectory = "versuch"
split = "satz"
angles = ["winkel"]

[training]
epochs = 2

[network]
width = 4
"""


def test_roles_by_option_by_toml_and_in_python_give_the_same_model(command, tmp_path):
    data = tmp_path / "swing.csv"
    recorded().write_csv(data)
    code, out, err = command("learn", data, "-o", tmp_path / "run", *QUICK, *ROLES)
    assert code == 0, err
    for line in ("coordinates: winkel (angle)", "d_winkel = rate", "feder", "600 samples of 2 out of 3 trajectories"):
        assert line in out
    scores = json.loads((tmp_path / "run/scores.json").read_text())
    splits = [(t["name"], t["split"]) for t in scores["trajectories"]]
    assert splits == [("r0", "train"), ("r1", "train"), ("r2", "test")]
    assert scores["trajectories"][1]["parameters"] == {"feder": pytest.approx(2.2**2)}
    (tmp_path / "roles.toml").write_text('recipe = "paper"\n' + TOML)
    words = ("learn", data, "-o", tmp_path / "again", "--config", tmp_path / "roles.toml", "--dry-run")
    assert command(*words)[1] == (tmp_path / "run/config.toml").read_text()
    first = (tmp_path / "run/model.safetensors").read_bytes()
    roles = {"time": "zeit", "coordinates": ["winkel"], "velocities": ["rate"], "inputs": ["kraft"]}
    roles |= {"parameters": "feder", "trajectory": "versuch", "split": "satz", "angles": ["winkel"]}
    small = {"recipe": "paper", "training": {"epochs": 2}, "network": {"width": 4}}
    with jax.enable_x64(False):  # as a user's own process computes
        model = fnode.learn(fnode.read(data, **roles), **small)
    model.save(tmp_path / "python")
    assert (tmp_path / "python/model.safetensors").read_bytes() == first
    code, out, err = command("score", tmp_path / "run", data, "--json")
    assert code == 0, err
    full = scores["trajectories"][2]["mse"]["full"]
    assert json.loads(out)["r2"]["mse"] == pytest.approx(full, rel=1e-6)


def test_ambiguity_and_bad_roles_leave_no_trace(command, tmp_path):
    recorded().write_csv(tmp_path / "swing.csv")
    for words, fragment in (
        ((), "time = "),
        (("--set", "time=zeit"), "coordinates = "),
        (("--set", "time=zeit", "--set", "coordinates=nase"), "nase"),
        ((*ROLES, "--set", "velocities=rate,kraft"), "2 velocities for 1 coordinates"),
        ((*ROLES, "--set", "split=7"), "split"),
        ((*ROLES, "--set", "gaps=ignore"), "gaps"),
    ):
        code, out, err = command("learn", tmp_path / "swing.csv", "-o", tmp_path / "run", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert fragment in err
        assert not (tmp_path / "run").exists()


def test_predictions_from_many_starts_with_inputs_on_their_own_times(command, tmp_path):
    recorded().write_csv(tmp_path / "swing.csv")
    assert command("learn", tmp_path / "swing.csv", "-o", tmp_path / "run", *QUICK, *ROLES)[0] == 0
    (tmp_path / "starts.csv").write_text("winkel,rate,feder\n0.5,0,4\n0.1,1,4\n-0.3,0,5\n")
    (tmp_path / "drive.csv").write_text("time;kraft [N]\n0;0\n0.31;1\n0.7;-1\n")
    words = ("predict", tmp_path / "run", "--from", tmp_path / "starts.csv", "--until", 1, "-o", tmp_path / "out.csv")
    code, out, err = command(*words, "--set", f"kraft={tmp_path / 'drive.csv'}", "--set", "hold=zero")
    assert code == 0, err
    assert "zero hold; it keeps its last value after t = 0.7" in out.replace("\n", " ")
    table = polars.read_csv(tmp_path / "out.csv")
    assert table["trajectory"].n_unique() == 3
    first = table.filter(polars.col("trajectory") == 0)
    held = first["kraft"].to_numpy()
    ts = first["t"].to_numpy()
    np.testing.assert_array_equal(held, np.where(ts < 0.31, 0.0, np.where(ts < 0.7, 1.0, -1.0)))
    # the same as rolling the model out by hand
    model = fnode.load(tmp_path / "run")
    drive = ZeroOrderHold(jnp.array([0.0, 0.31, 0.7]), jnp.array([[0.0], [1.0], [-1.0]]))
    start = fnode.State(jnp.array([-0.3]), jnp.array([0.0]))
    control = lambda t: jnp.append(drive(t), 5.0)  # noqa: E731
    by_hand = rollout(model.member(), start, jnp.asarray(ts), control=control, solver=model.forecaster().solver)
    last = table.filter(polars.col("trajectory") == 2)
    np.testing.assert_allclose(last["winkel"].to_numpy(), by_hand.q[:, 0], rtol=1e-5, atol=1e-7)
    for words_more, fragment in (
        ((), "no column 'kraft'"),
        (("--set", "kraft=missing.csv"), "missing.csv is not there"),
        (("--set", "kraft=1", "--set", "hold=soft"), "soft"),
        (("--set", "winkel=drive.csv"), "winkel"),
        (("--set", "nase=1"), "kraft"),
    ):
        code, out, err = command(*words, *words_more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert fragment in err
    (tmp_path / "places.csv").write_text("winkel,feder\n0.5,4\n")
    code, _, err = command(*words[:3], tmp_path / "places.csv", *words[4:], "--set", "kraft=0")
    assert code == 2
    assert "d_NAME" in err


def noisy_table(noise=0.01):
    ts = np.arange(400) * 0.01
    rng = np.random.default_rng(3)
    q = np.sin(4 * ts)
    return ts, q + noise * np.std(q) * rng.normal(size=len(ts))


def test_check_measures_what_was_put_in(tmp_path):
    ts, q = noisy_table()
    ts = ts + np.random.default_rng(5).uniform(-0.001, 0.001, len(ts))
    spikes = [60, 200, 311]
    q[spikes] += 0.5
    kept = np.ones(len(ts), bool)
    kept[120:150] = False
    polars.DataFrame({"t": ts[kept], "theta": q[kept]}).write_csv(tmp_path / "data.csv")
    found = quality(tmp_path / "data.csv")
    (sampling,), (channel,), (motion,) = found.samplings, found.channels, found.motions
    assert sampling.dt == pytest.approx(0.01, rel=0.05)
    assert sampling.jitter == pytest.approx(0.2 / np.sqrt(6), rel=0.15)  # the difference of two uniform shifts
    assert [row for row, _ in sampling.gaps] == [120]
    assert channel.noise_relative == pytest.approx(0.01, rel=0.2)
    assert channel.outliers == 3
    assert motion.samples_per_oscillation == pytest.approx(100 * 2 * np.pi / 4, rel=0.1)
    assert not found.enough
    assert "gaps=split" in found.problems[0]


def test_check_finds_clean_data_enough_and_bad_times_not(command, tmp_path):
    ts, q = noisy_table(0.0)
    polars.DataFrame({"t": ts, "x": q, "v": 4 * np.cos(4 * ts), "u": ts}).write_csv(tmp_path / "good.csv")
    code, out, err = command("check", tmp_path / "good.csv", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["enough"]
    assert document["problems"] == []
    assert document["roles"]["velocities"] == ["v"]
    assert document["derivatives"]["suggested"] == "auto"
    assert [column["role"] for column in document["columns"]] == ["coordinate", "velocity", "input"]
    ts[50], ts[70] = ts[49], ts[60]
    polars.DataFrame({"t": ts, "x": q}).write_csv(tmp_path / "bad.csv")
    code, out, err = command("check", tmp_path / "bad.csv")
    assert code == 0, err
    assert "repeat in 1 rows, first in row 51" in out
    assert "go back in 1 rows, first in row 71" in out
    (tmp_path / "names.csv").write_text("t,[bold]x,d_[bold]x\n" + "".join(f"{k},{k % 7},0\n" for k in range(60)))
    code, out, err = command("check", tmp_path / "names.csv")
    assert code == 0, err
    assert "[bold]x" in out


@pytest.mark.parametrize("name", ["empty.csv", "text.csv"])
def test_check_refuses_what_is_no_table(command, tmp_path, name):
    (tmp_path / name).write_text("" if name == "empty.csv" else "hello")
    code, out, err = command("check", tmp_path / name)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.skipif(not MEASURED.is_dir(), reason="no measured pendula beside the project or at $FNODE_MEASURED")
@pytest.mark.parametrize(("name", "arms", "held_out"), [("single", 1, 2), ("double", 2, 4), ("triple", 3, 4)])
def test_measured_pendula_are_understood(name, arms, held_out):
    found = fnode.read(MEASURED / f"{name}_pendulum.csv")
    assert [column.name for column in found.roles.columns.coordinates] == [f"theta{k + 1}" for k in range(arms)]
    assert all(column.angle for column in found.roles.columns.coordinates)
    assert found.roles.as_values()["velocities"] == [f"omega{k + 1}" for k in range(arms)]
    assert sum(count == 0 for count in found.training.values()) == held_out


def test_a_fraction_overrides_the_files_split(tmp_path):
    path = tmp_path / "swing.csv"
    recorded().rename({"zeit": "t", "winkel": "x", "rate": "v", "versuch": "run", "satz": "split"}).write_csv(path)
    from fnode.preparation import prepare, read_as, resolved

    def trained(**data):
        config = resolved({"data": {"inputs": ["kraft"], "parameters": ["feder"], **data}}, "paper", None)
        return [recording.training for recording in prepare(config, read_as(config, path))[0].recordings]

    assert trained() == [300, 300, 0]
    assert trained(split=0.5) == [150, 150, 150]
    assert trained(split=["r0"]) == [0, 300, 300]
    with pytest.raises(InputError, match="nowhere"):
        trained(split="nowhere")


def test_a_start_keeps_its_velocities_where_training_left_them_aside(tmp_path):
    """A single row has no slope: what it says of the velocity is all there is."""
    ts = np.arange(0.0, 6.0, 0.01)
    table = {"t": ts, "x": np.sin(3 * ts), "v": 3 * np.cos(3 * (ts - 0.05))}
    polars.DataFrame(table).write_csv(tmp_path / "late.csv")
    (tmp_path / "start.csv").write_text("t,x,d_x\n0,0.5,1.5\n")
    runs = (
        ["learn", "late.csv", "--set", "structures=library", "-o", "run"],
        [*("predict", "run", "--from", "start.csv", "--until", "1", "-o", "future.csv")],
    )
    for words in runs:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setattr(sys, "argv", ["fnode", *words])
            with pytest.raises(SystemExit) as stop:
                main()
            assert stop.value.code == 0
    assert "velocities left aside: d_x" in (tmp_path / "run/run.log").read_text()
    future = polars.read_csv(tmp_path / "future.csv")
    np.testing.assert_allclose(future["x"], 0.5 * np.cos(3 * future["t"]) + 0.5 * np.sin(3 * future["t"]), atol=1e-3)
