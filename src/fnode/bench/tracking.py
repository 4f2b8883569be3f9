"""The paper's figure of the test error against the training time, on the chain of three masses."""

from typing import Any

import numpy as np

from fnode.bench.drawing import COLOURS, panels
from fnode.bench.experiment import AbstractExperiment, Drawing, Heading
from fnode.bench.trained import CHAIN, MODELS, label, over_seeds, trained


class Tracking(AbstractExperiment):
    """What each model would have been worth had its training been stopped earlier."""

    name = "tracking"
    title = "Test error against training time, triple mass-spring-damper"
    paper = "Fig. 26"

    def cells(self, seeds, quick):
        return [cell for model in MODELS for cell in trained(CHAIN, model, seeds, quick)]

    def present(self, results):
        rows = []
        for cell, result in over_seeds(results):
            found = [_summary(track) for track in result["tracks"]]
            total, end, seconds, epochs = np.median(found, axis=0)
            rows.append((label(cell), f"{total:.2f}", f"{end:.1e}", f"{seconds:.2f}", f"{epochs:.0f}"))
        text = (
            "Error of the test part with the best weights so far by training loss, and when it came within a factor "
            "of two of its last value for good: medians over seeds. Seconds are of one seed, without compilation, on "
            "one core."
        )
        columns = ("model", "training (s)", "test error at the end", "within twice that after (s)", "epochs")
        return [Heading("How soon a training is as good as it gets", text, columns, tuple(rows))]

    def figures(self, results):
        from matplotlib.ticker import LogLocator

        figure, axes = panels(1, 1, height=3.6)
        one = axes[0, 0]
        for cell, result in over_seeds(results):
            colour = COLOURS[cell.inputs["model"]]
            seconds, errors = _over_time(result["tracks"])
            low, high = errors.min(axis=0), errors.max(axis=0)
            one.fill_between(seconds, low, high, step="post", color=colour, alpha=0.18, linewidth=0)
            one.step(seconds, np.median(errors, axis=0), where="post", color=colour, label=label(cell))
        one.set_xscale("log", subs=())
        one.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # plain seconds do not overlap, however short the axis
        one.xaxis.set_major_formatter("{x:g}")
        one.set_yscale("log")
        one.set_xlabel("training time of one seed (s)")
        one.set_ylabel("mean squared error, test part (m², m²/s²)")
        one.legend(fontsize=8)
        caption = (
            "Fig. 26: error of the test part against training time on the triple mass-spring-damper. Lines are "
            "medians over seeds, bands their range; seconds on one core, without compilation."
        )
        return [Drawing("fig26_tracking", caption, figure)]


def _errors(track: dict[str, Any]) -> np.ndarray:
    """The error of the test part at every look; a rollout that left for good is infinitely wrong."""
    return np.array([np.inf if value is None else value for (value,) in track["mse"]])


def _summary(track: dict[str, Any]) -> tuple[float, float, float, int]:
    """Seconds and error at the end, and seconds and epochs when the error was within a factor of two of it for good."""
    errors = _errors(track)
    above = np.flatnonzero(errors > 2 * errors[-1])
    settled = int(above[-1]) + 1 if above.size else 0
    return track["seconds"][-1], float(errors[-1]), track["seconds"][settled], track["epochs"][settled]


def _over_time(tracks: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Every time at which some seed was looked at, and the error of each seed, had it been stopped then."""
    seconds = np.unique(np.concatenate([track["seconds"] for track in tracks]))
    seconds = seconds[seconds >= max(track["seconds"][0] for track in tracks)]
    looks = [np.searchsorted(track["seconds"], seconds, side="right") - 1 for track in tracks]
    return seconds, np.stack([_errors(track)[look] for track, look in zip(tracks, looks, strict=True)])
