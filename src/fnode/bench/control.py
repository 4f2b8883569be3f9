"""The paper's model predictive control of the cart-pole."""

from fnode.bench.drawing import PALETTE, panels, quantity
from fnode.bench.experiment import AbstractExperiment, Cell, Drawing, Heading
from fnode.systems import ForcedCartPole

COLUMNS = (*ForcedCartPole.columns.state, *ForcedCartPole.columns.inputs)
ORDER = ("theta", "x", "d_theta", "d_x", "u")  # the panels of the paper's figure
RECIPES = ("paper", "auto")


class Control(AbstractExperiment):
    """Controllers with the analytic model and with learned ones on the same plant."""

    name = "control"
    title = "Model predictive control of the cart-pole"
    paper = "Fig. 24"

    def cells(self, seeds, quick):
        if quick:
            return [Cell("control", {"recipe": "paper", "settings": {"training": {"epochs": 20, "batch": 512}}}, 5.0)]
        return [Cell("control", {"recipe": recipe}, 5.0) for recipe in RECIPES]

    def present(self, results):
        rows = [("analytic", *_row(results[0][1]["figures"]["analytic"]))]
        for cell, result in results:
            name, loops = f"learned, {cell.inputs['recipe']}", result["figures"]
            rows.append((name, *(_row(loops["learned"]) if "learned" in loops else ("no solution", *["-"] * 5))))
        text = (
            "The paper's task: Q = I, R = 1, 50 steps of 0.05 s, from theta = pi/6 and x = 1 m, terminal constraint "
            "and bounds as its code has them. The plant is the analytic cart-pole. Linear models are taken at "
            "upright; their errors are relative, in the Frobenius norm. Settled: the norm of the state stays below "
            "0.01. The paper prints no figures."
        )
        columns = (
            "model",
            "first force (N)",
            "peak force (N)",
            "settled after (s)",
            "distance at the end",
            "error of A",
            "error of B",
        )
        return [Heading("Closed loops", text, columns, tuple(rows))]

    def figures(self, results):
        figure, axes = panels(3, 2, width=9.0, height=2.0)
        names = [column.name for column in COLUMNS]
        units = {column.name: column.unit for column in COLUMNS}
        loops = {"analytic": results[0][1]["arrays"]} | {
            f"learned, {cell.inputs['recipe']}": result["arrays"] for cell, result in results
        }
        for one, name in zip(axes.flat, ORDER, strict=False):
            for (label, arrays), colour, dash in zip(
                loops.items(), PALETTE, ("solid", (0, (1, 1.2)), (0, (4, 2))), strict=False
            ):
                which = "analytic" if label == "analytic" else "learned"
                if f"{which}.ts" not in arrays:
                    continue
                ts, states, inputs = (arrays[f"{which}.{part}"] for part in ("ts", "states", "inputs"))
                if name == "u":
                    one.step(ts[:-1], inputs[:, 0], where="post", color=colour, linestyle=dash, label=label)
                else:
                    one.plot(ts, states[:, names.index(name)], color=colour, linestyle=dash, label=label)
            one.set_xlabel("t (s)", fontsize=9)
            one.set_ylabel(quantity(name, units), fontsize=9)
        axes[2, 1].set_axis_off()
        axes[2, 1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center", fontsize=9, frameon=False)
        caption = "Fig. 24: closed loops of model predictive control with the analytic model and with learned ones."
        return [Drawing("fig24_control", caption, figure)]


def _row(one: dict) -> tuple[str, ...]:
    settled = one["settling_time"]
    linear = one["linearisation"]
    return (
        f"{one['first_input']:.2f}",
        f"{one['peak_input']:.2f}",
        "never" if settled is None else f"{settled:.2f}",
        f"{one['final_distance']:.1e}",
        f"{linear['error_a']:.1e}",
        f"{linear['error_b']:.1e}",
    )
