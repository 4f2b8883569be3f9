"""Recipes: a name for a whole set of choices. The paper's hyper-parameter tables are values here."""

from typing import Any

from fnode.errors import choose

Values = dict[str, Any]

# What the paper's tables print for FNODE where it differs from the defaults of `Config`
# (2 hidden layers of 256, 450 epochs, Adam at 1e-3 decaying by 0.98, batch 1, plain units, float32).
PAPER_TABLES: dict[str, Values] = {
    "double_pendulum": {"training": {"learning_rate": 3e-3}},
    "slider_crank": {"network": {"depth": 3}, "training": {"learning_rate": 5e-4, "decay": 0.99}},
    # The paper gives no settings of its own for friction: the slider-crank's, with the code's batches and scaling.
    "slider_crank_friction": {
        "network": {"depth": 3, "scale": True},
        "training": {"learning_rate": 5e-4, "decay": 0.99, "batch": 256},
    },
}

# Weight decay and gradient clipping that the released code applies and the paper does not mention.
PAPER_CODE: dict[str, tuple[float, float]] = {
    "mass_spring": (1e-3, 1.0),
    "mass_spring_damper": (9e-5, 0.3),
    "triple_mass_spring_damper": (5e-5, 1.0),
    "double_pendulum": (5e-4, 1.0),
    "cart_pole": (1e-5, 1.0),
    "slider_crank": (1e-4, 1.0),
}


def paper(system: str | None) -> Values:
    """The published tables: MLP, Adam, three-point labels with first-order ends, no hidden decay or clip."""
    return PAPER_TABLES.get(system or "", {})


def paper_code(system: str | None) -> Values:
    """As `paper`, with the weight decay and clip found in the released code."""
    decay, clip = PAPER_CODE.get(system or "", (1e-5, 1.0))
    table = paper(system)
    return {**table, "training": {**table.get("training", {}), "weight_decay": decay, "clip": clip}}


def auto(system: str | None) -> Values:
    """The best structure by rollouts over held-out windows of the training part, fitted by least squares."""
    return {
        "labels": {"labels": "auto"},
        "network": {"scale": True, "angles": "sincos"},
        "training": {"optimiser": "least_squares", "precision": "float64"},
    }


def network(system: str | None) -> Values:
    """As `auto`, among structures whose functions are neural networks; no closed-form library."""
    values = auto(system)
    return {**values, "training": {**values["training"], "structures": ("linear_skip", "quadratic", "lagrangian")}}


RECIPES = {"auto": auto, "network": network, "paper": paper, "paper_code": paper_code}
DEFAULT = "auto"


def recipe_values(name: str, system: str | None) -> Values:
    """What the recipe of this name prescribes for a system (or for files, when there is none)."""
    return RECIPES[choose("recipe", name, RECIPES)](system)
