"""The paper's depth study: accelerations of the slider-crank with friction by networks of 2 to 6 hidden layers."""

from fnode.bench.drawing import PALETTE, TRUTH, panels
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading, shown
from fnode.bench.published import DEPTHS


class FrictionDepth(AbstractExperiment):
    """Friction coefficient 0.6, the first 5 s; errors against the labels, as published, and against the truth."""

    name = "friction_depth"
    title = "Depth of the network and the acceleration of the slider-crank with friction"
    paper = "Table 7, Fig. 20"

    def cells(self, seeds, quick):
        if quick:
            return [Cell("friction_depth", {"depth": 2, "seed": 0, "epochs": 3})]
        return [
            Cell("friction_depth", {"depth": depth, "seed": seed, "epochs": 500}, depth / 2)
            for depth in DEPTHS
            for seed in range(seeds)
        ]

    def present(self, results):
        rows = []
        for depth in dict.fromkeys(cell.inputs["depth"] for cell, _ in results):
            found = [result for cell, result in results if cell.inputs["depth"] == depth]
            columns = [shown([result[against] for result in found], ".2e") for against in ("labels", "truth")]
            rows.append((str(depth), f"{DEPTHS[depth]:.2e}", *columns))
        text = (
            "Mean squared error of the acceleration on the training states, median (range) over seeds. The published "
            "figures are against labels of first-order forward differences, on data whose friction is not consistent "
            "with its multiplier; ours is the corrected system with three-point labels."
        )
        headings = ("hidden layers", "published", "against the labels", "against the true acceleration")
        return [Heading("Depth study, mu = 0.6", text, headings, tuple(rows))]

    def figures(self, results):
        figure, axes = panels(1, 1, width=8.0, height=3.6)
        one = axes[0, 0]
        first = [(cell.inputs["depth"], result["arrays"]) for cell, result in results if cell.inputs["seed"] == 0]
        one.plot(first[0][1]["ts"], first[0][1]["truth"][:, 0], color=TRUTH, linewidth=3.2, label="truth")
        for (depth, arrays), colour in zip(first, PALETTE, strict=False):
            one.plot(
                arrays["ts"],
                arrays["learned"][:, 0],
                color=colour,
                linewidth=1.1,
                linestyle="--",
                label=f"{depth} hidden layers",
            )
        one.set_xlabel("t (s)")
        one.set_ylabel(r"$\ddot{\theta}_1$ (rad/s²)")
        one.legend(fontsize=8, ncols=2)
        caption = (
            "Fig. 20: acceleration of the crank at mu = 0.6 by networks of several depths, on the states of the "
            "training part. First seed."
        )
        return [Drawing("fig20_friction_acceleration", caption, figure)]
