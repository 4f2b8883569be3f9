"""What 1 % of noise leaves of the accuracy: `auto` ("ours") beside the paper's recipe ("peer"), on the same draws.

    python benchmarks/noise.py [SYSTEM...] [--draws N] [--json]

`..._rollout` is the mean squared error over the whole horizon against the clean truth, from the clean start;
`..._windows` the same over half-second windows of the training part, each from its clean first sample; `..._start` sets
the start that `auto` estimates beside the first noisy sample, by their distances from the true one. Medians over draws.
"""

import argparse
import dataclasses
import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import numpy as np
from _bench import result, show

from fnode.learn import Trained, predict_recording, run
from fnode.metrics import flat, mse
from fnode.model import Model
from fnode.preparation import prepare, resolved

SYSTEMS = ("cart_pole", "triple_mass_spring_damper", "double_pendulum")
NOISE, WINDOW_SECONDS = 0.01, 0.5


def errors(system: str, recipe: str, draw: int) -> dict[str, float]:
    """One noisy draw learned by a recipe: its errors against the clean truth."""
    config = resolved({"system": system, "seed": draw, "data": {"noise": NOISE}}, recipe, system)
    learned = run(config, prepare(config))
    (part,) = learned.trained
    (recording,), (rolled,) = part.recordings, part.predictions[0]
    assert recording.observed is not None
    found = {
        "rollout": mse(rolled, recording.truth.x),
        "windows": windows_error(learned.model, part),
    }
    begins = {"first sample": recording.observed.states[0]}
    if part.starts[0][0] is not None:
        begins["start"] = flat(part.starts[0][0])
    found |= {name: float(np.linalg.norm(x - recording.truth.states[0])) for name, x in begins.items()}
    said = ", ".join(f"{name} {value:.2g}" for name, value in found.items())
    print(f"{system}, {recipe}, draw {draw}: {said}", file=sys.stderr, flush=True)
    return found


def windows_error(model: Model, part: Trained) -> float:
    """Over windows of the training part, clean, each predicted from its own first sample."""
    (recording,) = part.recordings
    length = 1 + round(WINDOW_SECONDS / float(recording.truth.ts[1] - recording.truth.ts[0]))
    begins = range(0, recording.training - length + 1, length - 1)
    cuts = [dataclasses.replace(recording, truth=recording.truth[k : k + length]) for k in begins]
    return float(np.mean([mse(predict_recording(model, 0, cut), cut.truth.x) for cut in cuts]))


def median(found: list[dict[str, float]], name: str) -> float:
    return float(np.median([one[name] for one in found]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if unknown := set(asked.systems) - set(SYSTEMS):
        parser.error(f"got {', '.join(sorted(unknown))}: choose from {', '.join(SYSTEMS)}")
    if asked.draws < 1:
        parser.error(f"got {asked.draws} draws: give at least 1")
    jax.config.update("jax_enable_x64", True)
    results, notes = {}, []
    for system in asked.systems:
        ours, peer = ([errors(system, recipe, draw) for draw in range(asked.draws)] for recipe in ("auto", "paper"))
        for name in ("rollout", "windows"):
            results[f"{system}_{name}"] = result(median(ours, name), median(peer, name), "")
        results[f"{system}_start"] = result(median(ours, "start"), median(ours, "first sample"), "")
        by_draw = ", ".join(f"{b['rollout'] / a['rollout']:.3g}" for a, b in zip(ours, peer, strict=True))
        notes.append(f"{system}, ratios of rollouts by draw: {by_draw}")
    show(__doc__.split("\n\n")[0], results, notes)


if __name__ == "__main__":
    main()
