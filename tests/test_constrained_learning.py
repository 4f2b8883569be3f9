"""A mechanism learned by its independent coordinate: the constraints hold in the whole rollout."""

import json
import sys

import numpy as np
import polars
import pytest

from fnode.cli import main
from fnode.derivatives import DERIVATIVES

SMALL = (
    "--recipe",
    "paper",
    "--set",
    "width=8",
    "--set",
    "epochs=40",
    "--set",
    "batch=16",
    "--set",
    "steps=200",
    "--set",
    "train=100",
)
NAMES = [f"{letter}{body}" for body in (1, 2, 3) for letter in ("x", "y", "theta")]


@pytest.fixture(scope="module", params=["minimal", "full"])
def learned(request, tmp_path_factory):
    """A run of the slider-crank by its crank angle, and one by all nine coordinates."""
    folder = tmp_path_factory.mktemp(request.param)
    words = (
        "learn",
        "slider_crank",
        *SMALL,
        "--set",
        f"coordinates={request.param}",
        "--seeds",
        "2",
        "-o",
        str(folder / "run"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fnode", *words])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return request.param, folder / "run"


def test_constraints_hold_at_all_levels_only_where_they_are_solved_for(learned):
    coordinates, run = learned
    scores = json.loads((run / "scores.json").read_text())
    residuals = scores["constraint"]
    if coordinates == "minimal":
        assert max(residuals.values()) < 1e-10
        assert set(scores["seeds"][0]["rmse"]["test"]) == {"theta1", "d_theta1"}
    else:  # nothing keeps a network of all coordinates on the constraints
        assert residuals["position"] is None or residuals["position"] > 1e-6
        assert set(scores["seeds"][0]["rmse"]["test"]) == {*NAMES, *(f"d_{name}" for name in NAMES)}
    assert scores["mse_all"] is not None


def test_the_completed_levels_belong_together(learned):
    coordinates, run = learned
    if coordinates == "full":
        pytest.skip("nothing is completed")
    table = polars.read_csv(run / "prediction.csv")
    ts = table["t"].to_numpy()
    q, v, a = (table.select(f"{level}{name}" for name in NAMES).to_numpy() for level in ("", "d_", "dd_"))
    differentiate = DERIVATIVES["difference"]
    np.testing.assert_allclose(differentiate(ts, q).value, v, atol=1e-6)
    np.testing.assert_allclose(differentiate(ts, v).value, a, atol=1e-6)


def test_the_report_shows_the_mechanism(learned):
    coordinates, run = learned
    page = (run / "report.html").read_text()
    assert ("The mechanism" in page) == (coordinates == "minimal")
    assert "Constraints" in page
