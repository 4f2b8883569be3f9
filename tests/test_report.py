"""Laws of the report: what its pictures are drawn from, and that its page holds together whatever happened in a run."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import jax.numpy as jnp
import markupsafe
import numpy as np
import polars
import pytest

from fnode.learn import Run, run
from fnode.preparation import prepare, read_as, resolved
from fnode.report import figures, page
from fnode.report.errors import Errors, first_beyond, growth
from fnode.report.motion import MOST_PANELS, phase_panels
from fnode.report.residuals import Residuals
from fnode.report.support import Support
from fnode.scores import scores
from fnode.trajectory import State

EVIL = "<script>alert(1)</script>'&"
SMALL = {"training": {"epochs": 2, "batch": 16}, "network": {"width": 4}}


@pytest.fixture(scope="module")
def oscillator() -> Run:
    config = resolved({"system": "mass_spring_damper", "data": {"steps": 400, "train": 300}, **SMALL}, "paper", None)
    return run(config, prepare(config))


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Run:
    """Thirty short records, every third of them held out, of a quantity whose name would run if it were let."""
    path, ts = tmp_path_factory.mktemp("several") / "many.csv", np.arange(40) * 0.05
    frames = [
        polars.DataFrame({"run": f"r{k}", "t": ts, EVIL: size * np.sin(3 * ts), f"d_{EVIL}": 3 * size * np.cos(3 * ts)})
        for k, size in enumerate(np.linspace(0.5, 1.5, 30))
    ]
    polars.concat(frames).write_csv(path)
    data = {"trajectory": "run", "split": [f"r{k}" for k in range(0, 30, 3)]}
    config = resolved({"files": [str(path)], "data": data, **SMALL}, "paper", None)
    return run(config, prepare(config, read_as(config, path)))


def with_predictions(found: Run, change) -> Run:
    """The run with other predictions in place of the chosen member's."""
    part, seed = found.chosen
    changed = list(part.predictions)
    changed[seed] = tuple(change(recording, x) for recording, x in zip(part.recordings, changed[seed], strict=True))
    trained = [
        dataclasses.replace(part, predictions=tuple(changed)) if each is part else each for each in found.trained
    ]
    return dataclasses.replace(found, trained=tuple(trained))


def with_truth(found: Run) -> Run:
    return with_predictions(found, lambda recording, x: recording.truth.x)


class Parts(HTMLParser):
    """The anchors, the links to them, and the figures of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.links, self.figures, self.labels, self.reading = [], [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.labels += [given["aria-label"]] if given.get("class") == "plot" else []
        self.reading = tag == "script" and given.get("type") == "application/json"

    def handle_data(self, data):
        if self.reading:
            self.figures.append(json.loads(data))
        self.reading = False


@pytest.mark.parametrize("count", [0, 1, 1000, 10_001])
def test_long_lines_are_drawn_with_few_points_from_end_to_end(count):
    line = figures.line(np.arange(count), np.arange(count) ** 2, "truth", "#000000")
    assert len(line.x) == len(line.y)
    assert min(count, 500) <= len(line.x) <= min(count, figures.MOST_POINTS + 1)
    assert count == 0 or (line.x[0] == 0 and line.x[-1] == count - 1)


def test_contents_lead_to_every_section_and_every_figure_says_what_it_is(oscillator, several):
    for found in (oscillator, several):
        parts = Parts(page(found, scores(found)))
        assert len(set(parts.ids)) == len(parts.ids)
        assert {link[1:] for link in parts.links} == set(parts.ids)
        assert {"data", "growth", "residuals", "support", "phases", "training", "repeat"} <= set(parts.ids)
        assert len(parts.figures) == len(parts.labels) > 5
        assert all(parts.labels)


@pytest.mark.parametrize("lost", [np.nan, np.inf, 1e100])
def test_a_rollout_that_got_lost_is_reported_as_lost(oscillator, lost):
    def leave(recording, x):
        return State(x.q.at[350:].set(lost), x.v.at[350:].set(lost))

    found = with_predictions(with_truth(oscillator), leave)
    text = page(found, scores(found))
    t = float(found.chosen[0].recordings[0].truth.ts[350])
    assert f"first exceeds it at t = {t:.3g} s" in text
    assert f"first leaves the data at t = {t:.3g} s" in text
    assert Errors.of(found).typical(held_out=False) == 0
    share = Errors.of(found).typical(held_out=True)
    assert share is None or share > 1e99


def test_errors_are_those_of_the_prediction_in_units_of_the_spread(oscillator):
    shifted = with_predictions(oscillator, lambda r, x: State(r.truth.x.q + 0.1 * jnp.std(r.truth.x.q), r.truth.x.v))
    errors = Errors.of(shifted)
    for each in errors.relative:
        np.testing.assert_allclose(each, 0.1 / np.sqrt(2))
    assert errors.typical(held_out=True) == pytest.approx(0.1 / np.sqrt(2))
    figure = growth(errors, [0])
    drawn = {trace.name: trace for trace in figure.data if trace.xaxis == "x"}
    ts = shifted.chosen[0].recordings[0].truth.ts
    split = float(ts[300])
    for name in ("training part", "held-out part"):
        np.testing.assert_allclose(drawn[name].y, 0.1 * errors.spread[0])
    assert drawn["training part"].x[-1] < split + 0.02 < drawn["held-out part"].x[0] + 0.04
    assert drawn["spread of the motion"].y[0] == errors.spread[0]


def test_the_band_over_recordings_holds_the_middle_of_them(several):
    sizes = {recording.name: 1.0 + k for k, recording in enumerate(several.chosen[0].recordings)}
    found = with_predictions(several, lambda r, x: State(r.truth.x.q + sizes[r.name], r.truth.x.v))
    drawn = {trace.name: trace for trace in growth(Errors.of(found), [0]).data if trace.xaxis == "x"}
    held = np.sort([size for name, size in sizes.items() if int(name[1:]) % 3 == 0])
    spread = drawn["held-out part, range"].y
    assert set(np.round(spread, 6)) == {held[1], held[8]}
    assert held[4] <= drawn["held-out part"].y[0] <= held[5]


def test_first_beyond_is_the_first_time_above():
    ts = np.array([0.0, 0.5, 1.0, 1.5])
    assert first_beyond(ts, np.array([0.0, 1.0, 2.0, 0.0]), 1.0) == 1.0
    assert first_beyond(ts, np.zeros(4), 1.0) is None


def test_a_true_field_leaves_what_the_labels_are_wrong_by(oscillator):
    """The system's own field, put in place of the learned one, is off by the labels' error alone."""
    part, seed = oscillator.chosen
    system = oscillator.system
    seeds = tuple(dataclasses.replace(each, field=system) if k == seed else each for k, each in enumerate(part.seeds))
    true = dataclasses.replace(oscillator, trained=(dataclasses.replace(part, seeds=seeds),))
    found, learned = Residuals.of(true), Residuals.of(oscillator)
    assert found is not None
    assert learned is not None
    observed = part.recordings[0].observed
    assert observed is not None
    assert observed.a is not None
    np.testing.assert_allclose(found.values, part.labels[0].rate.value - np.asarray(observed.a), atol=1e-9)
    assert found.rows()[0]["left"] < learned.rows()[0]["left"]
    assert found.rows()[0]["sd"] is None  # the paper's differences know nothing of their error


def test_a_rollout_along_the_training_states_has_not_left_them(oscillator):
    there = Support.of(with_truth(oscillator))
    assert there is not None
    assert np.max(there.distances[0][:300]) == 0
    far = with_predictions(oscillator, lambda r, x: State(r.truth.x.q + 100.0, r.truth.x.v))
    away = Support.of(far)
    assert away is not None
    assert np.min(away.distances[0]) > 1
    assert "at t = 0 s" in away.sentence()


def test_a_turn_more_is_no_distance_for_a_model_that_knows_angles(oscillator):
    """The same motion a whole turn further on; only where the model sees the plain angle has it left."""
    turned = with_predictions(with_truth(oscillator), lambda r, x: State(x.q + 2 * np.pi, x.v))
    part, seed = turned.chosen
    columns = turned.model.columns
    angle = dataclasses.replace(columns, coordinates=(dataclasses.replace(columns.coordinates[0], angle=True),))
    for angles, leaves in (("plain", True), ("sincos", False)):
        network = part.seeds[seed].network.model_copy(update={"angles": angles})
        learned = dataclasses.replace(part.seeds[seed], network=network)
        found = dataclasses.replace(
            turned,
            model=dataclasses.replace(turned.model, columns=angle),
            trained=(dataclasses.replace(part, seeds=(learned,)),),
        )
        support = Support.of(found)
        assert support is not None
        assert bool(np.max(support.distances[0][:300]) > 1) == leaves


def test_phase_portraits_are_few_and_begin_with_what_was_held_out(several):
    panels = phase_panels(several)
    recordings = several.chosen[0].recordings
    held = [recordings[k].training == 0 for k, _ in panels]
    assert len(panels) == MOST_PANELS
    assert held == sorted(held, reverse=True)
    assert 0 < sum(held) < len(held)
    assert f"{MOST_PANELS} of 30 trajectories" in page(several, scores(several))


def test_names_from_files_reach_figures_as_text(several):
    text = page(several, scores(several))
    assert "<script>alert" not in text
    parts = Parts(text)
    titles = [axis["title"]["text"] for figure in parts.figures for axis in axes(figure) if "alert" in str(axis)]
    assert titles
    assert all("&lt;script&gt;alert(1)&lt;/script&gt;" in title and "<" not in title for title in titles)
    assert str(markupsafe.escape(EVIL)) in text


def axes(figure: dict) -> list[dict]:
    return [value for name, value in figure["layout"].items() if re.match("[xy]axis", name)]


def test_a_page_says_what_noise_and_gaps_cost(oscillator):
    told = {"samples": 300, "missing": 0.2, "noise": {"dd_x": 0.042}, "label_error": {"dd_x": 0.3}, "constraint": None}
    text = page(oscillator, {**scores(oscillator), "data": {**told, "window_error": 0.07}})
    for words in ("Noise is about 4.2 %", "20 % of the samples are missing", "off by about 30 %", "at most 7 %"):
        assert words in text
