"""The paper's tables of hyper-parameters beside the recipe `paper`, which is what the suite trains with."""

from fnode.bench.experiment import AbstractExperiment, Heading
from fnode.bench.published import COMMON, HYPERPARAMETERS
from fnode.config import Config
from fnode.preparation import resolved

NAMES = {
    "layers": "hidden layers",
    "nodes": "nodes per hidden layer",
    "epochs": "epochs",
    "rate": "initial learning rate",
    "decay": "learning rate decay",
    "activations": "activation",
    "optimiser": "optimiser",
}
OPTIMISERS = {"adam": "Adam", "adamw": "AdamW", "least_squares": "least squares"}
MODELS = {"fnode": "FNODE", "mbd_node": "MBD-NODE", "lstm": "LSTM", "fcnn": "FCNN", "hnn": "HNN", "lnn": "LNN"}


class Hyperparameters(AbstractExperiment):
    """Nothing is computed: recipes are values."""

    name = "hyperparameters"
    title = "Hyper-parameters"
    paper = "Tables 1 to 6, 8"

    def cells(self, seeds, quick):
        return []

    def present(self, results):
        return [_architecture(), *(beside_recipe(*which, models) for which, models in HYPERPARAMETERS.items())]


def of_recipe(system: str, model: str) -> dict[str, int | float | str]:
    """The hyper-parameters of the recipe `paper`, under the names of the published tables."""
    config = resolved({"model": model}, "paper", system)
    training, network = config.training, config.network
    return {
        "layers": network.depth,
        "nodes": network.width,
        "epochs": training.epochs,
        "rate": training.learning_rate,
        "decay": training.decay,
        "activations": "sigmoid, tanh" if model == "lstm" else "tanh",
        "optimiser": OPTIMISERS[training.optimiser],
    }


def beside_recipe(number: str, system: str, models: dict[str, dict]) -> Heading:
    """One of the paper's tables; `models` says where each differs from what all have in common."""
    rows = []
    for name, text in NAMES.items():
        row = []
        for model, special in models.items():
            printed, here = {**COMMON, **special}[name], of_recipe(system, model)[name]
            row.append(f"{printed:g}" if isinstance(printed, float | int) else printed)
            if printed != here:
                row[-1] += f" (here {here})"
        rows.append((text, *row))
    rows.append(("loss", *["MSE"] * len(models)))
    rows.append(
        ("samples per step (not printed)", *(_batch(resolved({"model": model}, "paper", system)) for model in models))
    )
    text = f"As printed in {number} of the paper; '(here ...)' marks where the recipe `paper` differs."
    return Heading(f"{number}: {system}", text, ("", *(MODELS[model] for model in models)), tuple(rows))


def _batch(config: Config) -> str:
    return str(config.training.batch)


def _architecture() -> Heading:
    network = resolved({"model": "fnode"}, "paper", None).network
    hidden = [(f"hidden layer {k + 1}", str(network.width), "tanh", "Xavier normal") for k in range(network.depth)]
    rows = (("input", "2 n", "-", "-"), *hidden, ("output", "n", "-", "Xavier normal"))
    text = (
        "n coordinates. The paper prints a width without a number, and an activation and an initialisation for the "
        "input layer, which has neither; biases start at zero."
    )
    return Heading("Table 1: architecture of FNODE", text, ("layer", "neurons", "activation", "initialisation"), rows)
