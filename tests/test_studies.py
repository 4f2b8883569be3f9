"""The commands around labels and experiments, as their users meet them."""

import json
import math
import sys

import numpy as np
import polars
import pytest

from fnode.bench import EXPERIMENTS
from fnode.bench.data_efficiency import LENGTHS, RECIPES, SYSTEMS, cell
from fnode.bench.tasks import compute
from fnode.bench.tasks.labels import label_errors
from fnode.cli import main


@pytest.fixture
def command(monkeypatch, capsys):
    def fnode(*words):
        monkeypatch.setattr(sys, "argv", ["fnode", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return fnode


def test_the_label_study_knows_that_smooth_methods_win_on_noise():
    found = label_errors("mass_spring_damper", noise=0.01, source="velocities", draw=0)["methods"]
    assert found["auto"]["error"][0] < found["difference3"]["error"][0] / 3
    assert 0.2 < found["auto"]["z"][0] < 5


def test_the_label_study_compares_medians_with_those_of_plain_differences():
    study = EXPERIMENTS["label_study"]
    trained = [cell for cell in study.cells(3, False) if cell.task == "training_effect"]
    assert {cell.inputs["recipe"] for cell in trained} == {"paper", "network"}
    plain = [cell.inputs["labels"]["labels"] == "difference3" for cell in trained]
    assert sum(plain) == 2 * 2 * 5  # systems, trainings, draws
    spoiled = [1.0, 2.0, 3.0, 40.0, math.nan]  # a rollout that left for good does not spoil a median
    results = [
        (cell, {"label_rmse": 5.0, "acceleration_mse": 0.3, "rollout_mse": 8 * spoiled[cell.inputs["draw"]]})
        if differences
        else (cell, {"label_rmse": 1.0, "acceleration_mse": 0.02, "rollout_mse": spoiled[cell.inputs["draw"]]})
        for cell, differences in zip(trained, plain, strict=True)
    ]
    rows = {row[:3]: row[3:] for row in study.present(results)[-1].rows}
    for training in ("paper", "network"):
        assert rows["cart_pole", training, "difference3"] == ("5 (1x)", "0.3 (1x)", "24 (1x)")
        assert rows["cart_pole", training, "auto"] == ("1 (5x)", "0.02 (15x)", "3 (8x)")


def test_a_short_training_part_is_enough_for_what_the_library_can_say():
    """Every length is scored on the same samples, and 50 of them settle the few coefficients of an oscillator."""
    descended = compute(cell("mass_spring_damper", "paper", train=50, seeds=2, epochs=2))
    found = compute(cell("mass_spring_damper", "auto", train=50, seeds=2))
    assert found["deterministic"]
    assert len(descended["seeds"]) == 2
    assert found["seeds"][0]["mse"]["full"] < 1e-6 * min(entry["mse"]["full"] for entry in descended["seeds"])
    assert len(found["arrays"]["0.truth"]) == len(descended["arrays"]["0.truth"]) == 400


def test_tables_and_figures_take_diverged_seeds():
    """Medians by hand: 1, 2 and a rollout that left have the median 2; two that left have none to draw."""
    study = EXPERIMENTS["data_efficiency"]
    errors = {50: [1.0, None, None], 100: [None, 2.0, 1.0]}

    def result(one):
        found = errors.get(one.inputs["settings"]["data"]["train"], [0.5])
        return {"seeds": [{"mse": {"full": value}} for value in found], "structure": "mlp"}

    results = [(one, result(one)) for one in study.cells(3, quick=False)]
    tables = study.present(results)
    assert [table.title for table in tables] == list(SYSTEMS)
    assert tables[0].columns[1:] == RECIPES
    rows = {row[0]: row[1] for row in tables[0].rows}
    assert tuple(map(int, rows)) == LENGTHS
    assert rows["50"].startswith("inf (1.0e+00 .. inf)")
    assert rows["100"].startswith("2.0e+00 (1.0e+00 .. inf)")
    (drawing,) = study.figures(results)
    drawn = drawing.figure.axes[0].lines[0].get_ydata()
    assert np.isnan(drawn[0])
    assert list(drawn[1:]) == [2.0, 0.5, 0.5, 0.5]


def test_differentiate_writes_values_and_deviations_and_draws_them(command, tmp_path):
    data, labels = tmp_path / "data.csv", tmp_path / "labels.csv"
    assert command("simulate", "mass_spring", "--steps", 200, "--noise", 0.01, "-o", data)[0] == 0
    code, out, err = command("differentiate", data, "-o", labels, "--json")
    assert code == 0, err
    diagnosis = json.loads(out)[0]
    assert diagnosis["coordinate"] == "x"
    assert 0.005 < diagnosis["noise_relative"] < 0.02
    table = polars.read_csv(labels)
    error = table["dd_x"].to_numpy() - (-5 * np.cos(math.sqrt(5) * table["t"].to_numpy()))
    assert np.sqrt(np.mean(error**2)) < 0.2
    assert np.all(np.abs(error) < 6 * table["sd_dd_x"].to_numpy())
    page = (tmp_path / "labels.html").read_text()
    assert "residual of d_x" in page
    assert 'src="http' not in page


def test_differentiate_bridges_missing_values(command, tmp_path):
    data = tmp_path / "data.csv"
    command("simulate", "mass_spring", "--steps", 100, "-o", data)
    table = polars.read_csv(data)
    holed = table.with_columns(d_x=polars.when(table["t"].is_between(0.3, 0.35)).then(None).otherwise(table["d_x"]))
    holed.write_csv(data)
    code, out, err = command("differentiate", data, "-o", tmp_path / "labels.csv", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["bridged"] >= 5
    assert polars.read_csv(tmp_path / "labels.csv")["dd_x"].is_finite().all()


def test_names_from_files_are_shown_and_not_run(command, tmp_path):
    evil = "<script>alert(1)</script>"
    rows = "\n".join(f"{0.01 * k},{k},{math.sin(k)}" for k in range(30))
    (tmp_path / "evil.csv").write_text(f"t,{evil},d_{evil}\n{rows}\n")
    code, _, err = command("differentiate", tmp_path / "evil.csv", "-o", tmp_path / "out.csv")
    assert code == 0, err
    assert evil not in (tmp_path / "out.html").read_text()


def test_a_mechanism_file_is_simulated_in_all_its_coordinates(command, tmp_path):
    pendulum = """
gravity = 9.81
[[body]]
name = "bob"
mass = 1.0
inertia = 0.1
pose = [1.0, 0.0, 0.0]
[[joint]]
name = "pin"
type = "revolute"
bodies = ["ground", "bob"]
points = [[0.0, 0.0], [-1.0, 0.0]]
"""
    (tmp_path / "pendulum.toml").write_text(pendulum)
    code, _, err = command("simulate", tmp_path / "pendulum.toml", "--steps", 51, "-o", tmp_path / "swing.csv")
    assert code == 0, err
    table = polars.read_csv(tmp_path / "swing.csv")
    length = np.hypot(table["x_bob"].to_numpy(), table["y_bob"].to_numpy())
    np.testing.assert_allclose(length, 1.0, atol=1e-12)
    (tmp_path / "broken.toml").write_text(pendulum.replace('"bob"]', '"rod"]'))
    code, _, err = command("simulate", tmp_path / "broken.toml", "-o", tmp_path / "swing.csv")
    assert code == 2
    assert "rod" in err


def test_an_unknown_experiment_is_told_which_there_are(command, tmp_path):
    code, _, err = command("bench", "nonsense", "-o", tmp_path / "b")
    assert code == 2
    assert "label_study" in err
    assert not (tmp_path / "b").exists()
