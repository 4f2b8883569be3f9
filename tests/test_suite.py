"""The paper's suite: cells that are computed once, workers, and what tables and figures make of them."""

import json
import os
import sys
import time

import jax
import numpy as np
import pytest

from fnode.analysis.error_decomposition import slope
from fnode.bench import (
    EXPERIMENTS,
    AbstractExperiment,
    Cell,
    Drawing,
    Heading,
    Store,
    finished,
    local_workers,
    needed,
    run_bench,
)
from fnode.bench import schematics as drawings
from fnode.bench.error_analysis import DURATION, EXPECTED, STEPS
from fnode.bench.experiment import shown
from fnode.bench.hyperparameters import of_recipe
from fnode.bench.published import COMMON, ERRORS, HYPERPARAMETERS, SECONDS
from fnode.bench.run import InThisProcess, in_turn, run_cells
from fnode.bench.tasks import TASKS, compute
from fnode.bench.tasks.error_analysis import label_and_solver_errors
from fnode.bench.tasks.learned import learned
from fnode.bench.trained import CHAIN, MODELS, label, over_seeds, trained
from fnode.cli import main
from fnode.errors import InputError
from fnode.mechanisms import Minimal
from fnode.report.document import coded
from fnode.run_folder import RunFolder
from fnode.systems import DoublePendulum, ForcedCartPole, TripleMassSpringDamper
from fnode.trajectory import State


class Squares(AbstractExperiment):
    """Numbers and their squares."""

    name = "squares"
    title = "Squares"

    def cells(self, seeds, quick):
        return [Cell("square", {"number": number}) for number in range(seeds)]

    def present(self, results):
        rows = tuple((str(cell.inputs["number"]), str(result["square"])) for cell, result in results)
        return [Heading("All", "Numbers and squares.", ("number", "square"), rows)]


class Roots(Squares):
    """Another view of the same cells."""

    name = "roots"


@pytest.fixture
def asked(monkeypatch):
    """A task that counts how often it is asked, and is interrupted once."""
    numbers = []

    def square(number):
        if number == 3 and "interrupted" not in numbers:
            numbers.append("interrupted")
            raise KeyboardInterrupt
        if number == 13:
            raise InputError("thirteen")
        numbers.append(number)
        return {"square": number**2, "arrays": {"part.one": np.arange(number, dtype=float)}}

    monkeypatch.setitem(TASKS, "square", square)
    return numbers


def test_finished_cells_are_kept_through_interrupts_and_repeats(tmp_path, asked):
    with pytest.raises(KeyboardInterrupt):
        run_bench([Squares()], tmp_path, seeds=5, quick=False)
    asked.clear()
    asked.append("interrupted")
    (first,) = run_bench([Squares()], tmp_path, seeds=5, quick=False)
    (second,) = run_bench([Squares()], tmp_path, seeds=5, quick=False)
    assert sorted(asked[1:]) == sorted(set(asked[1:]))
    assert first.tables == second.tables
    assert first.tables[0].rows[4] == ("4", "16")
    assert "| 4 | 16 |" in (tmp_path / "squares.md").read_text()
    assert r"4 & 16 \\" in (tmp_path / "squares.tex").read_text()


def test_what_is_finished_can_be_seen_before_the_rest_is(tmp_path, asked):
    class Patient(Squares):
        name = "patient"
        partial = True

    run_bench([Squares()], tmp_path, seeds=3, quick=False)
    kept = sorted(tmp_path.rglob("*"))
    whole, some = finished([Squares(), Patient()], tmp_path, seeds=5, quick=False)
    assert (whole.tables, whole.missing) == ((), 2)
    assert [row[1] for row in some.tables[0].rows] == ["0", "1", "4"]
    assert sorted(tmp_path.rglob("*")) == kept
    (done,) = finished([Squares()], tmp_path, seeds=3, quick=False)
    assert done.missing == 0
    assert len(done.tables[0].rows) == 3


def test_a_folder_in_which_nothing_was_begun_is_not_shown_as_unfinished(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fnode", "bench", "error_table", "--finished", "-o", str(tmp_path / "typo")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "typo is not there" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "typo").exists()


def test_a_model_can_be_left_out_of_tables_that_do_without_it(tmp_path, monkeypatch, capsys):
    table = EXPERIMENTS["error_table"]
    models = {cell.inputs["model"] for cell in needed(table, seeds=1, quick=False, without=["lstm"])}
    assert models == {"fnode", "mbd_node", "fcnn"}
    for words, complaint in {
        ("cart_pole", "--without", "lstm"): "cart_pole is made of all its models",
        ("error_table", "--without", "lstn"): "unknown model 'lstn'",
        ("error_table", *(word for name in MODELS for word in ("--without", name))): "no model left",
    }.items():
        monkeypatch.setattr(sys, "argv", ["fnode", "bench", *words, "-o", str(tmp_path / "b")])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert complaint in " ".join(capsys.readouterr().err.split())
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if one.partial])
def test_tables_of_some_cells_leave_the_others_out(name):
    study = EXPERIMENTS[name]
    results = [(cell, one_seed(cell)) for cell in study.cells(2, quick=False)]
    for count in range(1, len(results) + 1, 3):
        first, *others = study.present(results[:count])
        assert len(first.rows) == len({(cell.inputs["system"], label(cell)) for cell, _ in results[:count]})
        assert all(len(row) == len(other.columns) for other in others for row in other.rows)


def one_seed(cell, *, error=1.0, windows=1.0, alone=1.0):
    """What the task of a training would give, made up; the error stands for everything that depends on the seed."""
    motion = np.full((1, 4, 2), error)
    entry = {
        "seed": cell.inputs["settings"]["seed"],
        "mse": dict.fromkeys(("full", "train", "test"), error),
        "mse_free": None,
        "rmse": {"test": dict.fromkeys(("x1", "x2", "x3", "d_x1", "d_x2", "d_x3"), error)},
        "seconds": {"train": 6.0, "compile": 1.0},
    }
    return {
        "seeds": [entry],
        "windows": [windows],
        "chosen": 0,
        "track": {"seconds": [2.0, 6.0], "epochs": [1, 3], "mse": [[3 * error], [error]]},
        "arrays": {"0.predicted": motion, "complete.predicted": motion[0]},
        "seconds": 20.0,
        "seconds_core": 20.0 * alone,
    }


def test_seeds_of_a_training_are_put_together_and_the_training_part_chooses():
    cells = trained(CHAIN, "fnode", 3, quick=False)
    assert trained(CHAIN, "fnode", 5, quick=False)[:3] == cells
    errors, windows = (1.0, 2.0, 3.0), (0.2, 0.1, None)
    results = [(c, one_seed(c, error=e, windows=w)) for c, e, w in zip(cells, errors, windows, strict=True)]
    others = [(cell, one_seed(cell)) for cell in trained(CHAIN, "fcnn", 3, quick=False)]
    (_, found), _ = over_seeds([*results, *others])
    assert [entry["seed"] for entry in found["seeds"]] == [0, 1, 2]
    assert found["chosen"] == 1
    np.testing.assert_array_equal(found["arrays"]["0.predicted"][:, 0, 0], errors)
    np.testing.assert_array_equal(found["arrays"]["complete.predicted"], np.full((4, 2), 2.0))
    (table,) = EXPERIMENTS["tracking"].present(results)
    assert table.rows == (("FNODE", "6.00", "2.0e+00", "6.00", "3"),)


SHORT = {"training": {"epochs": 6}}
TRAININGS = {
    "learned": {"system": "mass_spring", "model": "fcnn", "recipe": "paper", "seeds": 2, "settings": SHORT},
    "energy": {"schemes": ["rk4"], "recipe": "paper", "seeds": 2, "settings": {"model": "fnode", **SHORT}},
}


@pytest.mark.parametrize("task", TRAININGS)
def test_an_interrupted_training_goes_on_in_its_cell(tmp_path, monkeypatch, task):
    kept = RunFolder.checkpoint

    def checkpoint(self, start, progress, *, now=False):
        kept(self, start, progress, now=True)
        if interrupting:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "checkpoint", checkpoint)
    cell, store, executor = Cell(task, TRAININGS[task]), Store(tmp_path), InThisProcess()
    interrupting = True
    with pytest.raises(KeyboardInterrupt):
        list(run_cells([cell], store, executor))
    interrupting = False
    assert store.share(cell) == pytest.approx(1 / 6)
    ((_, result),) = run_cells([cell], store, executor)
    assert store.share(cell) is None
    assert "goes on after epoch 1" in (store.path(cell) / "run.log").read_text()
    assert not list(store.path(cell).glob("checkpoint*"))
    if task == "learned":
        uninterrupted = compute(cell)
        np.testing.assert_array_equal(result["arrays"]["0.predicted"], uninterrupted["arrays"]["0.predicted"])


def test_the_heaviest_cell_comes_first_and_light_ones_soon():
    cells = [Cell("square", {"number": number}, weight) for number, weight in enumerate((1.0, 2.0, 3.0, 4.0, 5.0, 6.0))]
    assert [cell.weight for cell in in_turn(cells)] == [6, 1, 2, 3, 5, 4]
    assert in_turn([]) == []
    assert in_turn(cells[:1]) == cells[:1]


def test_experiments_share_cells(tmp_path, asked):
    run_bench([Squares(), Roots()], tmp_path, seeds=3, quick=False)
    assert sorted(asked) == [0, 1, 2]


def test_a_failed_cell_costs_its_own_experiment_only(tmp_path, asked):
    asked.append("interrupted")

    class Unlucky(Squares):
        name = "unlucky"

        def cells(self, seeds, quick):
            return [Cell("square", {"number": number}) for number in (1, 13)]

    squares, unlucky = run_bench([Squares(), Unlucky()], tmp_path, seeds=2, quick=False)
    assert squares.tables
    assert not unlucky.tables
    assert unlucky.failed == ("square 13: thirteen",)


def test_other_inputs_and_other_code_have_other_folders(tmp_path, asked, monkeypatch):
    store = Store(tmp_path)
    one, two = Cell("square", {"number": 1}), Cell("square", {"number": 2})
    assert store.path(one) == store.path(Cell("square", {"number": 1}, weight=3.0))
    assert store.path(one) != store.path(two)
    store.save(two, TASKS["square"](2))
    kept = store.load(two)
    assert kept is not None
    assert kept["square"] == 4
    np.testing.assert_array_equal(kept["arrays"]["part.one"], [0.0, 1.0])
    before = store.path(one)
    monkeypatch.setattr("fnode.bench.store.code_version", lambda task: "another")
    assert store.path(one) != before
    assert store.load(two) is None


def nothing():
    """What workers prepare in these tests."""


def test_workers_have_a_core_each_and_end_with_an_interrupt():
    with pytest.raises(KeyboardInterrupt), local_workers(2, nothing) as executor:  # noqa: PT012
        found = [executor.submit(os.sched_getaffinity, 0) for _ in range(2)]
        assert all(len(future.result()) == 1 for future in found)
        worker = executor.submit(os.getpid).result()
        executor.submit(time.sleep, 60)
        raise KeyboardInterrupt
    for _ in range(100):
        try:
            os.waitpid(worker, os.WNOHANG)
            os.kill(worker, 0)
        except (ChildProcessError, ProcessLookupError):
            break
        time.sleep(0.1)
    else:
        pytest.fail("a worker outlived the command")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_are_values_with_cells_of_known_tasks(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    cells = experiment.cells(2, quick=False)
    assert len({cell.key for cell in cells}) == len(cells)
    assert len(experiment.cells(1, quick=True)) <= len(cells)
    for cell in cells + experiment.cells(1, quick=True):
        assert cell.task in TASKS
        assert json.loads(json.dumps(cell.inputs)) == cell.inputs


def test_every_figure_and_table_of_the_paper_is_somewhere():
    """Fig. 1 shows the method, not a result; everything else has an experiment."""
    told = " ".join(experiment.paper for experiment in EXPERIMENTS.values())
    figures = {
        int(word.strip(",")) for before, word in zip(told.split(), told.split()[1:], strict=False) if before == "Fig."
    }
    assert figures == set(range(2, 27))


def test_medians_and_ranges_count_a_lost_rollout_as_infinite():
    assert shown([1.0, None, 3.0], ".0f") == "3 (1 .. inf)"
    assert shown([0.5], ".2f", " %") == "0.50 %"
    assert shown([], ".1e") == "-"


def test_latex_tables_escape_what_latex_reads_otherwise():
    text = Heading("a_b", "100 %", ("x & y",), (("<1>",),)).latex()
    assert r"a\_b. 100 \%" in text
    assert r"x \& y \\" in text
    assert "$<$1$>$" in text


def test_words_between_backticks_are_code_and_nothing_is_run():
    assert coded("`a` <b>") == "<code>a</code> &lt;b&gt;"
    assert coded("2e-4 (1e-4 .. 1e+3)").count('<span class="number">') == 2


def test_the_published_tables_name_the_same_systems_and_models():
    assert {system: set(models) for system, models in ERRORS.items()} == {
        system: set(models) for system, models in SECONDS.items()
    }


@pytest.mark.parametrize(("number", "system"), HYPERPARAMETERS)
def test_the_recipe_paper_is_what_the_tables_print(number, system):
    for model, special in HYPERPARAMETERS[number, system].items():
        printed, here = {**COMMON, **special}, of_recipe(system, model)
        if (model, system) == ("lstm", "cart_pole"):
            printed.pop("activations"), here.pop("activations")  # printed without the sigmoids an LSTM has
        assert printed == here


def test_slopes_of_labels_and_integrator_are_those_of_theory():
    steps = STEPS[::7]
    found = label_and_solver_errors(steps)["errors"]
    for name, expected in EXPECTED.items():
        assert slope(DURATION / np.array(steps), np.array(found[name])) == pytest.approx(expected, abs=0.15)
    ends, inside = np.array(found["boundary, first order"]), np.array(found["interior"])
    np.testing.assert_allclose(found["overall, first-order ends"], ends + inside)


@pytest.mark.parametrize(
    ("sketch", "system"),
    [
        (drawings.chain(), TripleMassSpringDamper()),
        (drawings.double_pendulum(), DoublePendulum()),
        (drawings.cart_pole(), ForcedCartPole()),
    ],
)
def test_what_is_drawn_moves_as_the_system(sketch, system):
    n = len(system.columns.coordinates)
    q, v, u = jax.random.normal(jax.random.key(0), (3, n))
    u = u[: len(system.columns.inputs)] if system.columns.inputs else None
    drawn = jax.jit(Minimal(sketch.mechanism, sketch.pose).acceleration)(0.0, State(q, v), u)
    np.testing.assert_allclose(drawn, system.acceleration(0.0, State(q, v), u), rtol=1e-9)


def test_a_training_looked_at_on_its_way_ends_where_it_ends():
    found = learned(
        "triple_mass_spring_damper", "fnode", "paper", 2, {"training": {"epochs": 3, "batch": 60}}, track=True
    )
    assert found["chosen"] == np.argmin(found["windows"])
    track = found["track"]
    assert track["epochs"][-1] == 3
    assert np.all(np.diff(track["seconds"]) > 0)
    assert track["seconds"][-1] == pytest.approx(np.mean([entry["seconds"]["train"] for entry in found["seeds"]]))
    assert track["mse"][-1] == pytest.approx([entry["mse"]["test"] for entry in found["seeds"]])
    assert found["arrays"]["0.predicted"].shape == (2, 400, 6)
    first = found["seeds"][0]["mse"]
    study = EXPERIMENTS["triple_mass_spring_damper"]
    cells = study.cells(2, quick=True)
    settings = {"seed": 0, "training": {"epochs": 3, "batch": 60}}
    alone = compute(Cell("learned", {**cells[0].inputs, "settings": settings}))
    assert alone["seeds"][0]["mse"] == pytest.approx(first, rel=1e-3)  # whether trained beside others or not
    results = [(cell, alone) for cell in cells]
    motion, phase = study.figures(results)
    assert len(motion.figure.axes) == 6
    assert len(phase.figure.axes) == 12
    assert all(axes.get_ylabel().endswith(("(m)", "(m/s)")) for axes in motion.figure.axes)
    (tracked,) = EXPERIMENTS["tracking"].figures(results)
    assert "(s)" in tracked.figure.axes[0].get_xlabel()


def test_training_times_are_those_on_a_core_of_ones_own():
    """A core that was shared by two counts half the time."""
    study = EXPERIMENTS["training_time"]
    results = [(cell, one_seed(cell, alone=0.5)) for cell in study.cells(1, quick=False)]
    seconds, ratios = study.present(results)
    told = {(row[0], row[1]): row[4:] for row in seconds.rows}
    assert told["slider_crank", "LSTM, batch 1"] == ("3.00", "0.5")
    assert ratios.rows[0][2:] == ("1.0", "1.5")
    assert len(told) == len(results) == 5 * 5


def test_the_vehicle_is_shown_as_soon_as_there_is_one():
    """Its tables and figure from motions made up for the purpose: a path that ends 5 m off."""
    ts = np.linspace(0.0, 1.0, 11)
    truth = np.stack([ts, 0 * ts, 0 * ts, ts], axis=1)
    off = truth + np.array([3.0, 4.0, 0.0, 0.0])
    entry = {"name": "3", "split": "test", "parameters": {"l": 2.7}, "mse": {"full": 6.25}, "final_error": 5.0}
    result = {
        "trajectories": [{**entry, "name": "grid", "split": "train"}, entry],
        "training": [11, 0],
        "chosen": 0,
        "arrays": {"1.truth": truth, "1.predicted": off[None]},
    }
    study = EXPERIMENTS["vehicle"]
    results = [(study.cells(1, quick=True)[0], result)]
    _, cases, training = study.present(results)
    assert ("optimiser", "AdamW (here Adam)") in training.rows or ("optimiser", "AdamW") in training.rows
    assert cases.rows == (("3, held out", "l = 2.7", "5.00e+00", "6.2e+00"),)
    (drawing,) = study.figures(results)
    assert isinstance(drawing, Drawing)
    assert len(drawing.figure.axes) == 1


def test_the_page_holds_everything_and_needs_no_network(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fnode", "bench", "hyperparameters", "schematics", "-o", str(tmp_path / "b")])
    with pytest.raises(SystemExit) as stop:
        main()
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "Table 6: slider_crank" in out
    assert "…" not in out  # nothing is cut where no screen asks for it
    page = (tmp_path / "b" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert 'src="http' not in page
    assert "learning rate decay" in page
    for name in ("fig07_triple_mass_spring_damper", "fig10_double_pendulum", "fig13_slider_crank", "fig21_cart_pole"):
        assert (tmp_path / "b" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "b" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
