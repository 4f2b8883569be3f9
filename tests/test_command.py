"""The command as its users meet it: what it writes, what it says, what it refuses."""

import contextlib
import json
import os
import subprocess
import sys
import time

import numpy as np
import polars
import pytest

from fnode.cli import main
from fnode.cli._shared import prepare_jax

QUICK = ("--recipe", "paper", "--set", "epochs=3", "--set", "width=4", "--set", "steps=40", "--set", "train=30")


def fnode(monkeypatch, capsys, *words):
    """Run the command in this process: its exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["fnode", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *words: fnode(monkeypatch, capsys, *words)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A small finished run and the data of its system."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        for words in (
            ("learn", "mass_spring_damper", *QUICK, "--seeds", 2, "-o", folder / "run"),
            ("simulate", "mass_spring_damper", "--steps", 40, "-o", folder / "data.csv"),
        ):
            patch.setattr(sys, "argv", ["fnode", *map(str, words)])
            with contextlib.suppress(SystemExit):
                main()
    return folder


def refused(result, *fragments):
    """Exit code 2, nothing on stdout, and one line on stderr that holds every fragment."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    for fragment in fragments:
        assert fragment in err


def test_a_run_folder_holds_what_the_contract_says(finished_run):
    names = {path.name for path in (finished_run / "run").iterdir()}
    assert names == {
        "config.toml",
        "model.json",
        "model.safetensors",
        "scores.json",
        "prediction.csv",
        "history.csv",
        "run.log",
        "report.html",
    }
    scores = json.loads((finished_run / "run/scores.json").read_text())
    assert set(scores) == {
        *("system", "model", "recipe", "structure", "version", "deterministic", "chosen", "seeds", "median", "spread"),
        *("trajectories", "constraint", "mse_all", "energy_drift", "labels", "control", "data"),
        "ranking",
    }
    assert [entry["seed"] for entry in scores["seeds"]] == [0, 1]
    full = [entry["mse"]["full"] for entry in scores["seeds"]]
    assert scores["median"]["mse"]["full"] == pytest.approx(np.median(full))
    assert scores["spread"]["mse"]["full"] == [min(full), max(full)]
    assert set(scores["seeds"][0]["rmse"]["test"]) == {"x", "d_x"}


def test_scores_are_those_of_the_prediction(finished_run):
    scores = json.loads((finished_run / "run/scores.json").read_text())
    predicted = polars.read_csv(finished_run / "run/prediction.csv")
    truth = polars.read_csv(finished_run / "data.csv")
    error = predicted.select("x", "d_x").to_numpy() - truth.select("x", "d_x").to_numpy()
    chosen = scores["seeds"][scores["chosen"]]["mse"]
    assert np.mean(error**2) == pytest.approx(chosen["full"], rel=1e-9)
    assert np.mean(error[:30] ** 2) == pytest.approx(chosen["train"], rel=1e-9)
    assert np.mean(error[30:] ** 2) == pytest.approx(chosen["test"], rel=1e-9)


def test_the_report_stands_alone(finished_run):
    page = (finished_run / "run/report.html").read_text()
    assert "Phase portrait" in page
    assert 'src="http' not in page
    assert "<link" not in page


def test_score_of_the_systems_own_data_is_the_runs(finished_run, command):
    code, out, _ = command("score", finished_run / "run", finished_run / "data.csv", "--json")
    scores = json.loads((finished_run / "run/scores.json").read_text())
    assert code == 0
    assert json.loads(out)["0"]["mse"] == pytest.approx(scores["seeds"][scores["chosen"]]["mse"]["full"], rel=1e-6)


def test_predict_goes_where_it_is_told(finished_run, command, tmp_path):
    target = tmp_path / "future.parquet"
    code, _, _ = command("predict", finished_run / "run", "--set", "x=0.25", "--until", 1, "--dt", 0.1, "-o", target)
    table = polars.read_parquet(target)
    assert code == 0
    assert table["t"].to_list() == pytest.approx(np.linspace(0, 1, 11))
    assert table["x"][0] == 0.25


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_learning_from_a_file_equals_learning_from_its_system(finished_run, command, tmp_path, suffix):
    data = tmp_path / f"data.{suffix}"
    assert command("simulate", "mass_spring_damper", "--steps", 40, "-o", data)[0] == 0
    code, _, err = command(
        "learn",
        data,
        "--recipe",
        "paper",
        "--set",
        "epochs=3",
        "--set",
        "width=4",
        "--seeds",
        2,
        "-o",
        tmp_path / "run",
    )
    assert code == 0, err
    ours, theirs = (json.loads((path / "run/scores.json").read_text()) for path in (tmp_path, finished_run))
    assert ours["median"]["mse"]["full"] == pytest.approx(theirs["median"]["mse"]["full"], rel=1e-5)


def test_a_configuration_repeats_its_run_bit_for_bit(finished_run, command, tmp_path):
    code, _, err = command("learn", "--config", finished_run / "run/config.toml", "-o", tmp_path / "again")
    assert code == 0, err
    first, second = (path / "model.safetensors" for path in (finished_run / "run", tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()


def test_starts_are_learned_one_by_one(command, tmp_path):
    code, _, err = command("learn", "mass_spring", *QUICK, "--starts", 2, "--seeds", 2, "-o", tmp_path / "run")
    assert code == 0, err
    scores = json.loads((tmp_path / "run/scores.json").read_text())
    assert [(entry["start"], entry["seed"]) for entry in scores["seeds"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert scores["energy_drift"] is not None


def test_the_published_figure_stands_beside_an_experiment_done_as_published(command, tmp_path):
    small = ("--recipe", "paper", "--set", "epochs=1", "--set", "width=2", "--set", "batch=100")
    _, out, _ = command("learn", "mass_spring_damper", *small, "-o", tmp_path / "as_published")
    assert "published: MSE all 7.6e-05" in out
    _, out, _ = command("learn", "mass_spring_damper", *small, "--noise", "0.1", "-o", tmp_path / "other")
    assert "published:" not in out


def test_inputs_reach_the_network_and_the_rollout(command, tmp_path, monkeypatch):
    monkeypatch.setattr("fnode.systems.cart_pole.LEARNED", 3)  # of its 48 motions
    monkeypatch.setattr("fnode.systems.cart_pole.HELD_OUT", 0)
    code, _, err = command("learn", "cart_pole_forced", *QUICK, "--set", "scale=true", "-o", tmp_path / "run")
    assert code == 0, err
    assert "u" in polars.read_csv(tmp_path / "run/prediction.csv").columns


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    """SIGKILL in the middle of training, then --resume: the model of an uninterrupted run."""
    words = ["learn", "mass_spring_damper", "--recipe", "paper", "--set", "epochs=250", "--set", "width=32", "-o"]
    environment = {**os.environ, "FNODE_CHECKPOINT_SECONDS": "0"}
    start = [sys.executable, "-c", "from fnode.cli import main; main()", *words]
    whole = subprocess.Popen([*start, str(tmp_path / "whole")], env=environment)
    victim = subprocess.Popen([*start, str(tmp_path / "cut")], env=environment)
    checkpoint = tmp_path / "cut" / "checkpoint-0.safetensors"
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline and victim.poll() is None:
        time.sleep(0.02)
    victim.kill()
    victim.wait()
    assert checkpoint.exists(), "the run ended before it could be killed"
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    assert subprocess.run([*start, str(tmp_path / "cut"), "--resume"], env=environment, check=False).returncode == 0
    assert whole.wait() == 0
    assert "goes on after epoch" in (tmp_path / "cut/run.log").read_text()
    assert (tmp_path / "cut/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    assert not checkpoint.exists()


LONG = ["learn", "mass_spring_damper", "--recipe", "paper", "--set", "epochs=100000", "--set", "width=8", "-o"]
LOST = """
import gc, os, pathlib, signal, sys
def collected(*_):  # Python drops what is raised here: the first interrupt is lost
    if pathlib.Path(sys.argv[-1], "run.log").exists():
        gc.callbacks.remove(collected)
        signal.raise_signal(signal.SIGTERM)
gc.callbacks.append(collected)
"""


def says_that_it_was_interrupted(run):
    _, err = run.communicate(timeout=120)
    assert run.returncode == 130
    assert err.count("\n") == 1
    assert "interrupted" in err


def test_a_terminated_run_says_so_in_one_line(tmp_path):
    start = [sys.executable, "-c", "from fnode.cli import main; main()", *LONG, str(tmp_path / "run")]
    run = subprocess.Popen(start, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "run/run.log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    run.terminate()
    says_that_it_was_interrupted(run)


def test_an_interrupt_that_python_drops_comes_again(tmp_path):
    start = [sys.executable, "-c", f"{LOST}\nfrom fnode.cli import main; main()", *LONG, str(tmp_path / "run")]
    says_that_it_was_interrupted(subprocess.Popen(start, stderr=subprocess.PIPE, text=True))


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", "--xla_cpu_use_fusion_emitters=false"),
        ("--xla_dump_to=x word", "--xla_cpu_use_fusion_emitters=false --xla_dump_to=x word"),  # flags end with a word
        ("--xla_cpu_use_fusion_emitters=true", "--xla_cpu_use_fusion_emitters=true"),
    ],
)
def test_programs_are_compiled_quickly_unless_somebody_says_otherwise(monkeypatch, given, used):
    monkeypatch.setenv("XLA_FLAGS", given)
    prepare_jax()
    assert os.environ["XLA_FLAGS"] == used


def test_lists_are_json_when_asked(command):
    code, out, _ = command("list", "systems", "--json")
    assert code == 0
    assert "double_pendulum" in json.loads(out)


def test_dry_run_prints_the_configuration_and_writes_nothing(command, tmp_path):
    code, out, _ = command("learn", "double_pendulum", "--recipe", "paper", "-o", tmp_path / "run", "--dry-run")
    assert code == 0
    assert "learning_rate = 0.003" in out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (("learn", "nonsense"), ("nonsense", "cart_pole")),
        (("learn", "mass_spring", "--model", "gpt"), ("gpt", "fnode")),
        (("learn", "mass_spring", "--recipe", "soup"), ("soup", "paper_code")),
        (("learn", "mass_spring", "--set", "solver=rk5"), ("rk5", "yoshida4")),
        (("learn", "mass_spring", "--set", "labels=guess"), ("guess", "difference3")),
        (("learn", "mass_spring", "--set", "dt=0"), ("dt", "greater than 0")),
        (("learn", "mass_spring", "--set", "dt=-0.1"), ("dt", "greater than 0")),
        (("learn", "mass_spring", "--set", "dt=nan"), ("dt",)),
        (("learn", "mass_spring", "--set", "train=2"), ("2 samples", "at least 3")),
        (("learn", "mass_spring", "--recipe", "paper", "--set", "batch=301"), ("301", "300")),
        (("learn", "mass_spring", "--set", "colour=red"), ("colour", "learning_rate")),
        (("learn", "mass_spring", "--set", "epochs"), ("epochs", "name=value")),
        (("learn", "mass_spring", "--seeds", "0"), ("seeds",)),
        (("learn", "mass_spring", "--set", "inputs=smells"), ("inputs", "positions")),
        (("learn",), ("nothing to learn from",)),
        (("learn", "missing.csv"), ("missing.csv", "not there")),
        (("list", "colours"), ("colours", "systems")),
        (("dance",), ("dance",)),
        (("learn", "mass_spring", "--florp"), ("florp",)),
    ],
)
def test_bad_words_get_one_line_and_leave_no_trace(command, tmp_path, words, fragments):
    output = ("-o", tmp_path / "run") if words[0] == "learn" else ()
    refused(command(*words, *output), *fragments)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("", ("data.csv",)),
        ("t,x,d_x\n", ("no samples",)),
        ("t,x\n0,1\n", ("d_NAME",)),
        ("t,x,d_x\n0,1,0\n0.1,1,0\n0.1,1,0\n0.3,1,0\n", ("times must increase", "sample 2")),
        ("t,x,d_x\n0,1,0\n0.2,1,0\n0.1,1,0\n", ("times must increase",)),
        ("t,x,d_x\n0,1,0\n0.1,nan,0\n0.2,1,0\n0.3,1,0\n", ("'x'", "sample 1")),
        ("t,x,d_x\n0,1,0\n0.1,1,inf\n0.2,1,0\n0.3,1,0\n", ("'d_x'", "inf")),
        ("t,x,d_x\n0,1,0\n0.1,oops,0\n", ("'x'", "not numeric", "oops", "row 2")),
        ("t,x,d_x\n0,1,0\n", ("1 samples", "at least 3")),
    ],
)
def test_bad_files_get_one_line_and_leave_no_trace(command, tmp_path, text, fragments):
    (tmp_path / "data.csv").write_text(text)
    refused(command("learn", tmp_path / "data.csv", "-o", tmp_path / "run"), *fragments)
    assert not (tmp_path / "run").exists()


def test_an_occupied_folder_asks_for_force_and_foreign_files_are_safe(command, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.git").mkdir()
    refused(command("learn", "mass_spring", "-o", tmp_path / "run", "--force"), ".git")
    (tmp_path / "run/.git").rmdir()
    (tmp_path / "run/thesis.tex").write_text("years of work")
    refused(command("learn", "mass_spring", "-o", tmp_path / "run"), "exists", "--force")
    refused(command("learn", "mass_spring", "-o", tmp_path / "run", "--force"), "thesis.tex")
    assert (tmp_path / "run/thesis.tex").read_text() == "years of work"


def test_resume_refuses_another_configuration(finished_run, command, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.toml").write_text((finished_run / "run/config.toml").read_text())
    refused(command("learn", "mass_spring", *QUICK, "-o", tmp_path / "run", "--resume"), "another configuration")


@pytest.mark.parametrize("missing", ["model.json", "model.safetensors"])
def test_a_run_with_files_missing_is_not_a_run(finished_run, command, tmp_path, missing):
    for name in {"model.json", "model.safetensors"} - {missing}:
        (tmp_path / name).write_bytes((finished_run / "run" / name).read_bytes())
    refused(command("score", tmp_path, finished_run / "data.csv"), missing)


def test_damaged_or_foreign_models_are_refused(finished_run, command, tmp_path):
    model = {name: (finished_run / "run" / name).read_bytes() for name in ("model.json", "model.safetensors")}

    def attempt(**changed):
        for name, content in {**model, **changed}.items():
            (tmp_path / name.replace("_", ".")).write_bytes(content)
        return command("score", tmp_path, finished_run / "data.csv")

    arrays = bytearray(model["model.safetensors"])
    arrays[-1] ^= 1
    refused(attempt(model_safetensors=bytes(arrays)), "damaged")
    refused(attempt(model_safetensors=model["model.safetensors"][:100]), "damaged")
    refused(attempt(model_json=b"{"), "damaged")
    newer = model["model.json"].replace(b'"format": 3', b'"format": 99')
    refused(attempt(model_json=newer), "format 99", "format 3")


def test_a_loss_that_explodes_ends_with_one_line(command, tmp_path):
    words = ("learn", "mass_spring", *QUICK, "--set", "learning_rate=1e30", "--set", "epochs=50")
    refused(command(*words, "-o", tmp_path / "run"), "stopped being finite", "learning_rate")
    assert (tmp_path / "run/checkpoint-0.safetensors").exists()


def test_a_file_that_cannot_be_written_is_said_before_the_work(command, tmp_path):
    refused(command("simulate", "mass_spring", "-o", tmp_path / "no/such/place.csv"), "no folder")
    refused(command("simulate", "mass_spring", "-o", tmp_path / "data.docx"), ".parquet")
    refused(command("simulate", "mass_spring", "-o", tmp_path), "folder")


def test_a_full_disk_leaves_nothing_half_written(command, tmp_path, monkeypatch):
    import polars as table

    def full(self, path, *_, **__):
        with open(path, "w") as file:
            file.write("t,")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(table.DataFrame, "write_csv", full)
    refused(command("simulate", "mass_spring", "-o", tmp_path / "data.csv"), "No space left")
    assert list(tmp_path.iterdir()) == []
