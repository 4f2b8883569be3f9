"""The paper's phase portraits of the slider-crank under several friction coefficients."""

from fnode.bench.drawing import COLOURS, TRUTH, around, panels, quantity
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading, shown

DRAWN = ("mu=0", "mu=0.15", "mu=0.35", "mu=0.6")
SYSTEM = "slider_crank_friction"


class FrictionPhases(AbstractExperiment):
    """One field for all coefficients: seven of them for training, six between them for testing."""

    name = "friction"
    title = "Slider-crank with Coulomb friction"
    paper = "Fig. 19"

    def cells(self, seeds, quick):
        inputs = {"system": SYSTEM, "model": "fnode", "recipe": "paper", "seeds": seeds}
        if quick:
            inputs["settings"] = {"data": {"steps": 300, "train": 300}, "training": {"epochs": 2}}
        return [Cell("learned", inputs, 3.0 * seeds)]

    def present(self, results):
        ((_, result),) = results
        rows = [
            (entry["name"], entry["split"], "-" if entry["mse"]["full"] is None else f"{entry['mse']['full']:.1e}")
            for entry in result["trajectories"]
        ]
        error = shown([entry["mse"]["test"] for entry in result["seeds"]], ".1e")
        text = (
            "Mean squared error of the rollout of each coefficient by the chosen seed. Median over the coefficients "
            "held "
            f"out, median (range) over seeds: {error}. The paper gives no figure."
        )
        return [Heading("Friction coefficients", text, ("coefficient", "used for", "MSE"), tuple(rows))]

    def figures(self, results):
        ((_, result),) = results
        names = [entry["name"] for entry in result["trajectories"]]
        figure, axes = panels(2, 2, width=8.0, height=2.7)
        for one, name in zip(axes.flat, DRAWN, strict=True):
            k = names.index(name)
            truth, predicted = (result["arrays"][f"{k}.{which}"] for which in ("truth", "predicted"))
            predicted = predicted[result["chosen"]]
            one.plot(truth[:, 0], truth[:, 1], color=TRUTH, linewidth=2.6, label="truth")
            one.plot(
                predicted[:, 0], predicted[:, 1], color=COLOURS["fnode"], linestyle="--", linewidth=1.2, label="FNODE"
            )
            around(one, truth[:, 0], axis="x", room=0.2)
            around(one, truth[:, 1], room=0.2)
            split = result["trajectories"][k]["split"]
            one.set_title(
                rf"$\mu$ = {name[3:]} ({'training' if split == 'train' else 'held out'})", fontsize=9, loc="left"
            )
            one.set_xlabel(quantity("theta1", result["units"]), fontsize=9)
            one.set_ylabel(quantity("d_theta1", result["units"]), fontsize=9)
        axes[0, 0].legend(fontsize=8)
        caption = (
            "Fig. 19: phase portraits of the slider-crank under four friction coefficients, two of training and two "
            "held out."
        )
        return [Drawing("fig19_friction_phase", caption, figure)]
