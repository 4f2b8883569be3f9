"""The paper's table of training times, from the same trainings as its table of errors."""

from fnode.bench.error_table import ErrorTable
from fnode.bench.experiment import AbstractExperiment, Heading, middle, shown
from fnode.bench.published import SECONDS
from fnode.bench.trained import label, over_seeds
from fnode.preparation import resolved


class TrainingTime(AbstractExperiment):
    """Seconds of one seed on one core of this machine, beside the published seconds on a GPU."""

    name = "training_time"
    title = "Training times of four models on five systems"
    paper = "Table 12"
    partial = True

    def cells(self, seeds, quick):
        return ErrorTable().cells(seeds, quick)

    def present(self, results):
        results = over_seeds(results)
        return [_seconds(results), _ratios(results)]


def _seconds(results) -> Heading:
    rows = []
    for cell, result in results:
        system, model = cell.inputs["system"], cell.inputs["model"]
        compiling = max(entry["seconds"]["compile"] for entry in result["seeds"])
        integrator = "RK4" if model == "mbd_node" else "-"
        published = f"{SECONDS[system][model]:.2f}"
        rows.append((system, label(cell), integrator, published, shown(_training(result), ".2f"), f"{compiling:.1f}"))
    text = (
        "Seconds of training of one seed, without labels and rollouts, as the paper counts. Here: one core of a CPU, "
        "less the share of the time in which other programs had that core, median (range) over seeds; compilation is "
        "counted apart, that of the seed that had most of it: what one has compiled is there for the next."
    )
    columns = ("system", "model", "integrator", "published (s)", "training (s)", "compilation (s)")
    return Heading("Training times", text, columns, tuple(rows))


def _ratios(results) -> Heading:
    found = {
        (cell.inputs["system"], cell.inputs["model"]): (middle(_training(result)), _epochs(cell))
        for cell, result in results
        if cell.inputs["model"] in ("fnode", "mbd_node")
    }
    rows = []
    for system, seconds in SECONDS.items():
        if not {(system, "mbd_node"), (system, "fnode")} <= found.keys():
            continue
        (through, its_epochs), (direct, epochs) = found[system, "mbd_node"], found[system, "fnode"]
        ours = through / direct
        per_epoch = ours * epochs / its_epochs
        rows.append((system, f"{seconds['mbd_node'] / seconds['fnode']:.1f}", f"{ours:.1f}", f"{per_epoch:.1f}"))
    text = (
        "How many times longer MBD-NODE trains than FNODE. The paper's conclusions say one to two orders of "
        "magnitude; its own table says about two, with 300 epochs against 450."
    )
    return Heading("MBD-NODE over FNODE", text, ("system", "published", "here", "here, per epoch"), tuple(rows))


def _training(result) -> list[float]:
    return [entry["seconds"]["train"] for entry in result["seeds"]]


def _epochs(cell) -> int:
    """Epochs of a training: what the cell says, or its recipe."""
    inputs = cell.inputs
    settings = {"model": inputs["model"], **inputs["settings"]}
    return resolved(settings, inputs["recipe"], inputs["system"]).training.epochs
