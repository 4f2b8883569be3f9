"""The page of a run."""

import dataclasses

from fnode.errors import InputError
from fnode.learn import Run, completed
from fnode.recording import Recording
from fnode.report import figures
from fnode.report.animation import animation
from fnode.report.document import Picture, render

MOST_MOTIONS = 4  # that are drawn one by one; phase portraits are drawn of all


def page(run: Run, scores: dict) -> str:
    """The report of a run as HTML text."""
    part, seed = run.chosen
    pictures = []
    for number in _shown(run):
        recording = part.recordings[number]
        predicted = part.predictions[seed][number]
        name = f" of trajectory {recording.name}" if len(part.recordings) > 1 else ""
        needs = run.model.forecaster(0).needs
        note = f"The model was given the first {needs} samples, shaded in blue. " if needs > 1 else ""
        shown = figures.motion(recording, predicted, needs)
        pictures.append(Picture(f"Motion{name}", shown, note + _shading(recording)))
    if run.model.columns.velocities:
        pictures.append(Picture("Phase portraits", figures.phases(run)))
    if run.constrained:
        pictures.extend(_mechanism(run))
    if any(len(learned.history) for trained in run.trained for learned in trained.seeds):
        note = "The best of the way is what is kept."
        pictures.append(Picture("Training", figures.losses(run), note))
    title = f"{scores['system']}: {scores['model']}, recipe {scores['recipe']}"
    return render("run.html", title, pictures, scores=scores, config=run.config.to_toml())


def _shown(run: Run) -> list[int]:
    """The recordings to draw one by one: all, or the first and last of those trained on and of those held out."""
    recordings = run.chosen[0].recordings
    if len(recordings) <= MOST_MOTIONS:
        return list(range(len(recordings)))
    seen = [k for k, recording in enumerate(recordings) if recording.training]
    held = [k for k, recording in enumerate(recordings) if not recording.training]
    return [k for group in (seen, held) if group for k in sorted({group[0], group[-1]})]


def _mechanism(run: Run) -> list[Picture]:
    """All coordinates of the last recording, completed from the learned ones, and the mechanism in motion."""
    part, seed = run.chosen
    number = len(part.recordings) - 1
    recording = part.recordings[number]
    truth = run.complete(recording.truth)
    try:
        predicted = completed(run, part, number, seed)
    except InputError:
        return []
    whole = dataclasses.replace(recording, truth=truth)
    note = f"Trajectory {recording.name}: solved from the constraints at every sample. {_shading(recording)}"
    pictures = [Picture("All coordinates", figures.motion(whole, predicted.x), note)]
    mechanism = getattr(run.system, "mechanism", None)
    if mechanism is not None:
        moving = animation(mechanism, {"truth": truth, "model": predicted})
        pictures.append(Picture("The mechanism", moving, f"Trajectory {recording.name}."))
    return pictures


def _shading(recording: Recording) -> str:
    if recording.training == 0:
        return "This trajectory was held out: the model never saw it."
    return "The shaded part was not used for training." if recording.training < len(recording.truth) else ""
