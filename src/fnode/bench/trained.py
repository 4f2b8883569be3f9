"""The trainings that several tables and figures share: equal cells, computed once."""

from typing import Any

from fnode.bench.experiment import Cell

SYSTEMS = ("mass_spring_damper", "triple_mass_spring_damper", "double_pendulum", "slider_crank", "cart_pole")
MODELS = {"fnode": "FNODE", "mbd_node": "MBD-NODE", "lstm": "LSTM", "fcnn": "FCNN"}
CHAIN = "triple_mass_spring_damper"
LARGE_BATCH = 32  # of the LSTM over seeds: one sample at a time, as published, takes it longest of all
QUICK_EPOCHS = 2
EFFORT = {"fnode": 1.0, "mbd_node": 2.0, "lstm": 4.0, "fcnn": 1.0}


def trained(system: str, model: str, seeds: int, quick: bool) -> Cell:
    """All seeds of a model on a system by the recipe `paper`; the chain of three is looked at on its way."""
    training: dict[str, Any] = {"batch": LARGE_BATCH} if model == "lstm" else {}
    if quick:
        training["epochs"] = QUICK_EPOCHS
    return _cell(system, model, seeds, training, track=system == CHAIN)


def as_published(system: str) -> Cell:
    """One LSTM at batch 1."""
    return _cell(system, "lstm", 1, {"batch": 1}, track=False)


def _cell(system: str, model: str, seeds: int, training: dict[str, Any], *, track: bool) -> Cell:
    inputs = {"system": system, "model": model, "recipe": "paper", "seeds": seeds}
    inputs |= {"settings": {"training": training}} if training else {}
    inputs |= {"track": True} if track else {}
    batch = training.get("batch", 1)
    weight = (
        EFFORT[model] * seeds * (8 if system == "slider_crank" else 1) * (4 if model == "lstm" and batch == 1 else 1)
    )
    return Cell("learned", inputs, weight)


def label(cell: Cell) -> str:
    """A model's name, with the size of its batch where that is not the recipe's own."""
    batch = cell.inputs.get("settings", {}).get("training", {}).get("batch")
    return MODELS[cell.inputs["model"]] + (f", batch {batch}" if batch else "")
