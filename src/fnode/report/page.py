"""The page of a run."""

from fnode.learn import Run
from fnode.recording import Recording
from fnode.report import figures
from fnode.report.document import Picture, render


def page(run: Run, scores: dict) -> str:
    """The report of a run as HTML text."""
    pictures = []
    for recording, predicted in figures.chosen_predictions(run):
        name = f" of trajectory {recording.name}" if len(run.chosen[0].recordings) > 1 else ""
        pictures.append(Picture(f"Motion{name}", figures.motion(recording, predicted), _shading(recording)))
        if recording.truth.columns.velocities:
            pictures.append(Picture(f"Phase portrait{name}", figures.phase(recording, predicted)))
    note = "Loss of each seed; the best epoch of each is the one kept."
    pictures.append(Picture("Training", figures.losses(run), note))
    title = f"{scores['system']}: {scores['model']}, recipe {scores['recipe']}"
    return render("run.html", title, pictures, scores=scores, config=run.config.to_toml())


def _shading(recording: Recording) -> str:
    if recording.training == 0:
        return "This trajectory was held out: the model never saw it."
    return "The shaded part was not used for training." if recording.training < len(recording.truth) else ""
