"""The trainings that several tables and figures share: equal cells, computed once."""

from typing import Any

import numpy as np

from fnode.bench.experiment import Cell, Results

SYSTEMS = ("mass_spring_damper", "triple_mass_spring_damper", "double_pendulum", "slider_crank", "cart_pole")
MODELS = {"fnode": "FNODE", "mbd_node": "MBD-NODE", "lstm": "LSTM", "fcnn": "FCNN"}
CHAIN = "triple_mass_spring_damper"
LARGE_BATCH = 32  # of the LSTM over seeds: one sample at a time, as published, takes it longest of all
QUICK = {"epochs": 2}
QUICK_LONG = {"steps": 600, "train": 200}  # of the slider-crank, whose 4500 samples an LSTM foretells one by one
EFFORT = {"fnode": 1.0, "mbd_node": 2.0, "lstm": 10.0, "fcnn": 1.0}


def trained(system: str, model: str, seeds: int, quick: bool) -> list[Cell]:
    """A model on a system by the recipe `paper`; the chain of three is looked at on its way.

    Every seed is a cell of its own: more seeds later cost only those, and the longest trainings share the cores.
    """
    training: dict[str, Any] = {"batch": LARGE_BATCH} if model == "lstm" else {}
    settings: dict[str, Any] = {"training": training | (QUICK if quick else {})}
    if quick and system == "slider_crank":
        settings["data"] = QUICK_LONG
    return [_cell(system, model, seed, settings, track=system == CHAIN) for seed in range(seeds)]


def as_published(system: str) -> Cell:
    """One LSTM at batch 1."""
    return _cell(system, "lstm", 0, {"training": {"batch": 1}}, track=False)


def _cell(system: str, model: str, seed: int, settings: dict[str, Any], *, track: bool) -> Cell:
    settings = {"seed": seed, **settings}
    inputs = {"system": system, "model": model, "recipe": "paper", "seeds": 1, "settings": settings}
    inputs |= {"track": True} if track else {}
    single = settings["training"].get("batch") == 1
    weight = EFFORT[model] * (8 if system == "slider_crank" else 1) * (3 if single else 1)
    return Cell("learned", inputs, weight)


def label(cell: Cell) -> str:
    """A model's name, with the size of its batch where that is not the recipe's own."""
    batch = cell.inputs["settings"]["training"].get("batch")
    return MODELS[cell.inputs["model"]] + (f", batch {batch}" if batch else "")


def over_seeds(results: Results) -> Results:
    """One result for all seeds of a training, ordered by system: that of the seed with the smallest error on windows
    of the training part, with the scores, rollouts and tracks of all. Seconds are those on a core of one's own.
    """
    found: dict[str, list[tuple[Cell, dict[str, Any]]]] = {}
    for cell, result in sorted(results, key=lambda pair: SYSTEMS.index(pair[0].inputs["system"])):
        settings = {**cell.inputs["settings"], "seed": None}
        found.setdefault(Cell(cell.task, {**cell.inputs, "settings": settings}).key, []).append((cell, result))
    return [(several[0][0], _joined([_undisturbed(result) for _, result in several])) for several in found.values()]


def _joined(results: list[dict[str, Any]]) -> dict[str, Any]:
    windows = [np.inf if result["windows"][0] is None else result["windows"][0] for result in results]
    chosen = int(np.argmin(windows))
    predicted = np.concatenate([result["arrays"]["0.predicted"] for result in results])
    return {
        **results[chosen],
        "seeds": [entry for result in results for entry in result["seeds"]],
        "chosen": chosen,
        "windows": windows,
        "arrays": {**results[chosen]["arrays"], "0.predicted": predicted},
        "tracks": [result["track"] for result in results],
    }


def _undisturbed(result: dict[str, Any]) -> dict[str, Any]:
    """A result whose seconds leave out those in which other programs had the core."""
    alone = min(1.0, result["seconds_core"] / result["seconds"])

    def scaled(seconds):
        return {name: alone * value for name, value in seconds.items()}

    track = result["track"]
    return {
        **result,
        "seeds": [{**entry, "seconds": scaled(entry["seconds"])} for entry in result["seeds"]],
        "track": track and {**track, "seconds": [alone * value for value in track["seconds"]]},
    }
