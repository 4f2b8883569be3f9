"""The paper's figure of the test error against the training time, on the chain of three masses."""

import numpy as np

from fnode.bench.drawing import COLOURS, panels
from fnode.bench.experiment import AbstractExperiment, Drawing, Heading, middle
from fnode.bench.trained import CHAIN, MODELS, label, trained


class Tracking(AbstractExperiment):
    """What each model would have been worth had its training been stopped earlier."""

    name = "tracking"
    title = "Test error against training time, triple mass-spring-damper"
    paper = "Fig. 26"

    def cells(self, seeds, quick):
        return [trained(CHAIN, model, seeds, quick) for model in MODELS]

    def present(self, results):
        rows = []
        for cell, result in results:
            track = result["track"]
            errors = [middle(values) for values in track["mse"]]
            end = errors[-1]
            within = next(k for k, value in enumerate(errors) if all(later <= 2 * end for later in errors[k:]))
            rows.append(
                (
                    label(cell),
                    f"{track['seconds'][-1]:.2f}",
                    f"{end:.1e}",
                    f"{track['seconds'][within]:.2f}",
                    str(track["epochs"][within]),
                )
            )
        text = (
            "Error of the test part with the best weights so far by training loss, median over seeds, and when it "
            "came within a factor of two of its last value for good. Seconds are of one seed, without compilation, "
            "on one core."
        )
        columns = ("model", "training (s)", "test error at the end", "within twice that after (s)", "epochs")
        return [Heading("How soon a training is as good as it gets", text, columns, tuple(rows))]

    def figures(self, results):
        figure, axes = panels(1, 1, height=3.6)
        one = axes[0, 0]
        for cell, result in results:
            model, track = cell.inputs["model"], result["track"]
            values = np.array([[np.nan if value is None else value for value in looks] for looks in track["mse"]])
            seconds, colour = track["seconds"], COLOURS[model]
            one.fill_between(seconds, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.18, linewidth=0)
            one.plot(
                seconds,
                [middle(looks) for looks in track["mse"]],
                color=colour,
                marker="o",
                markersize=3,
                label=label(cell),
            )
        one.set_xscale("log")
        one.set_yscale("log")
        one.set_xlabel("training time of one seed (s)")
        one.set_ylabel("mean squared error, test part (m², m²/s²)")
        one.legend(fontsize=8)
        caption = (
            "Fig. 26: error of the test part against training time on the triple mass-spring-damper. Lines are "
            "medians over seeds, bands their range; seconds on one core, without compilation."
        )
        return [Drawing("fig26_tracking", caption, figure)]
