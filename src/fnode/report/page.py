"""The page of a run."""

import functools
import importlib.metadata
import platform
from collections.abc import Iterator

from fnode.learn import Run
from fnode.report.data import labels_of, ranges, samplings
from fnode.report.document import Picture, Section, render, stacked
from fnode.report.errors import Errors, growth
from fnode.report.mechanism import mechanism_pictures
from fnode.report.motion import motion, phase_panels, phases, shading
from fnode.report.residuals import Residuals, remaining
from fnode.report.support import Support, leaving
from fnode.report.training import losses
from fnode.selection import describe

MOST_MOTIONS = 4  # that are drawn one by one
VERSIONS = ("fnode", "jax", "equinox", "diffrax", "optax", "numpy", "scipy")


def page(run: Run, scores: dict) -> str:
    """The report of a run as HTML text."""
    errors, residuals = Errors.of(run), Residuals.of(run)
    title = f"{scores['system']}: {scores['model']}, recipe {scores['recipe']}"
    return render(
        "run.html",
        title,
        list(_sections(run, scores, errors, residuals)),
        scores=scores,
        facts=_facts(run, scores, errors),
        samplings=samplings(run),
        ranges=ranges(run),
        labels=labels_of(run) if scores["labels"] else [],
        residuals=residuals.rows() if residuals else [],
        config=run.config.to_toml(),
        versions=", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS),
        machine=f"Python {platform.python_version()}, {platform.system()} on {platform.machine()}",
    )


def _sections(run: Run, scores: dict, errors: Errors, residuals: Residuals | None) -> Iterator[Section]:
    """What the page shows, in its order."""
    columns = run.model.columns.coordinates
    yield Section("summary", "Summary")
    yield Section("data", "Data")
    if scores["ranking"]:
        yield Section("candidates", "Candidates tried")
    yield Section("motion", "Motion", tuple(_motions(run)))
    drawn = stacked("Error over time", errors.sentence(), columns, functools.partial(growth, errors))
    yield Section("growth", "Error over time", drawn)
    if residuals is not None:
        drawn = stacked("Residuals of the fit", "", residuals.columns, functools.partial(remaining, residuals))
        yield Section("residuals", "Residuals of the fit", drawn)
    support = Support.of(run)
    if support is not None:
        title = "Where the model leaves its data"
        yield Section("support", title, (Picture(title, leaving(support), support.sentence()),))
    if run.model.columns.velocities:
        yield Section("phases", "Phase portraits", (Picture("Phase portraits", phases(run), _left_out(run)),))
    if scores["constraint"]:
        yield Section("mechanism", "Constraints", tuple(mechanism_pictures(run)))
    if any(len(part.seeds[seed].history) for part, seed in run.members):
        yield Section("training", "Training", (Picture("Training loss", losses(run)),))
    yield Section("repeat", "Configuration, and how to repeat it")


def _facts(run: Run, scores: dict, errors: Errors) -> list[tuple[str, str, str]]:
    """The few numbers that matter: what they are, how much, and of what."""
    part, seed = run.chosen
    learned, recordings = part.seeds[seed], part.recordings
    trained, every = sum(r.training for r in recordings), sum(len(r.truth) for r in recordings)
    names = ", ".join(column.name for column in run.model.columns.coordinates)
    structure = scores["structure"] or scores["model"]
    size = f"{learned.network.depth} x {learned.network.width}"
    seconds = scores["seeds"][scores["chosen"]]["seconds"]
    spent = ", ".join(f"{seconds[name]:.1f} s to {name}" for name in ("compile", "train") if seconds[name] >= 0.05)
    count = "1 trajectory" if len(recordings) == 1 else f"{len(recordings)} trajectories"
    source = ("From", f"{trained} samples", f"for training, {every - trained} held out, of {count}")
    if run.config.stream.design:
        source = ("From", "a stream", f"({run.config.stream.design}), scored on {count}")
    return [
        ("Learned", structure, describe(learned.verdict) if learned.verdict else f"{scores['model']}, {size}"),
        ("Coordinates", names, "of first order" if run.model.columns.first_order else "with their velocities"),
        source,
        ("Error, training", _percent(errors.typical(held_out=False)), "of the motion's spread"),
        ("Error, held out", _percent(errors.typical(held_out=True)), "of the motion's spread"),
        ("Time", f"{seconds['total']:.1f} s", f"of which {spent}" if spent else ""),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %" if share > 0.1 else f"{100 * share:.2g} %"


def _motions(run: Run) -> Iterator[Picture]:
    part, seed = run.chosen
    needs = run.model.forecaster(0).needs
    given = f"The model was given the first {needs} samples, shaded in blue. " if needs > 1 else ""
    for number in _shown(run):
        recording = part.recordings[number]
        name = f"Trajectory {recording.name}" if len(part.recordings) > 1 else "Motion"
        draw = functools.partial(motion, recording, part.predictions[seed][number], given=needs)
        yield from stacked(name, given + shading(recording), run.model.columns.coordinates, draw)


def _shown(run: Run) -> list[int]:
    """The recordings to draw one by one: all, or the first and last of those trained on and of those held out."""
    recordings = run.chosen[0].recordings
    if len(recordings) <= MOST_MOTIONS:
        return list(range(len(recordings)))
    seen = [k for k, recording in enumerate(recordings) if recording.training]
    held = [k for k, recording in enumerate(recordings) if not recording.training]
    return [k for group in (seen, held) if group for k in sorted({group[0], group[-1]})]


def _left_out(run: Run) -> str:
    """What the phase portraits do not show."""
    drawn = len({number for number, _ in phase_panels(run)})
    count = len(run.chosen[0].recordings)
    return "" if drawn == count else f"{drawn} of {count} trajectories, evenly chosen, those held out first."
