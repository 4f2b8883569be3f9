"""The paper's vehicle: paths under four sets of parameters."""

import numpy as np

from fnode.bench.drawing import COLOURS, TRUTH, in_two_parts, panels
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading
from fnode.bench.hyperparameters import beside_recipe
from fnode.bench.published import VEHICLE_HYPERPARAMETERS
from fnode.systems import Vehicle as VehicleSystem


class Vehicle(AbstractExperiment):
    """The system's own experiment; the motions held out are its test cases.

    By `auto`: the paper's setting, 300 epochs over 393 million rows, would take months on one machine (docs/scale.md).
    """

    name = "vehicle"
    title = "4DOF vehicle with nine parameters"
    paper = "Tables 9 to 11, Fig. 25"
    needs = "vehicle"

    def cells(self, seeds, quick):
        inputs = {"system": "vehicle", "model": "fnode", "recipe": "auto", "seeds": seeds}
        if quick:
            inputs["settings"] = {
                "network": {"degree": 2, "width": 16},
                "training": {"batch": [64, 128]},
                "stream": {"levels": 2, "block": 32},
            }
        return [Cell("learned", inputs, 10.0)]

    def present(self, results):
        ((_, result),) = results
        rows = []
        for k, entry in _tests(result):
            truth, predicted = _paths(result, k)
            gap = float(np.hypot(*(predicted[-1, :2] - truth[-1, :2])))
            error = entry["mse"]["full"]
            numbers = ", ".join(f"{name} = {value:g}" for name, value in (entry["parameters"] or {}).items())
            rows.append((_case(entry), numbers, f"{gap:.2e}", "-" if error is None else f"{error:.1e}"))
        ranges = tuple((name, f"{low:g} .. {high:g}") for name, (low, high) in VehicleSystem.ranges.items())
        text = (
            "Distance of the predicted from the true place at the end, and mean squared error of the whole motion. "
            "The paper prints no figures."
        )
        return [
            Heading("Table 9: ranges of the parameters", "As printed in the paper.", ("parameter", "range"), ranges),
            Heading("Table 10: test cases", text, ("case", "parameters", "end point off by (m)", "MSE"), tuple(rows)),
            beside_recipe("Table 11", "vehicle", VEHICLE_HYPERPARAMETERS),
        ]

    def figures(self, results):
        ((_, result),) = results
        tests = _tests(result)[:4]
        figure, axes = panels(-(-len(tests) // 2), min(len(tests), 2), width=8.0, height=3.0)
        for one, (k, entry) in zip(axes.flat, tests, strict=False):
            truth, predicted = _paths(result, k)
            one.plot(truth[:, 0], truth[:, 1], color=TRUTH, linewidth=2.6, label="truth")
            in_two_parts(one, predicted[:, 0], predicted[:, 1], result["training"][k], COLOURS["fnode"], "FNODE")
            one.set_title(f"case {_case(entry)}", fontsize=9, loc="left")
            one.set_xlabel("x (m)", fontsize=9)
            one.set_ylabel("y (m)", fontsize=9)
        axes[0, 0].legend(fontsize=8)
        return [Drawing("fig25_vehicle", "Fig. 25: true and predicted paths of the vehicle.", figure)]


def _tests(result) -> list[tuple[int, dict]]:
    """The motions with a test part, with their numbers."""
    return [(k, entry) for k, entry in enumerate(result["trajectories"]) if entry["split"] != "train"]


def _case(entry) -> str:
    return f"{entry['name']}, {'held out' if entry['split'] == 'test' else 'first part for training'}"


def _paths(result, k: int) -> tuple[np.ndarray, np.ndarray]:
    return result["arrays"][f"{k}.truth"], result["arrays"][f"{k}.predicted"][result["chosen"]]
