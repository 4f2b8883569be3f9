"""One self-contained HTML page for a run: opens from disk, needs no network."""

import importlib.resources
import json

import jinja2
import plotly.offline

from fnode.learn import Run
from fnode.report import figures


def page(run: Run, scores: dict) -> str:
    """The report as HTML text; names from files are shown, never run."""
    pictures = []
    for recording, predicted in figures.chosen_predictions(run):
        name = f" of trajectory {recording.name}" if len(run.chosen[0].recordings) > 1 else ""
        pictures.append((f"Motion{name}", figures.motion(recording, predicted), _shading(recording)))
        if recording.truth.columns.velocities:
            pictures.append((f"Phase portrait{name}", figures.phase(recording, predicted), ""))
    pictures.append(("Training", figures.losses(run), "Loss of each seed; the best epoch of each is the one kept."))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["figure"] = lambda value: "-" if value is None else f"{value:.3g}"
    template = environment.from_string(
        importlib.resources.files("fnode.report").joinpath("page.html").read_text("utf-8")
    )
    return template.render(
        title=f"{scores['system']}: {scores['model']}, recipe {scores['recipe']}",
        scores=scores,
        config=run.config.to_toml(),
        pictures=[{"title": title, "note": note, "json": _json(figure)} for title, figure, note in pictures],
        plotly=plotly.offline.get_plotlyjs(),
    )


def _shading(recording) -> str:
    if recording.training == 0:
        return "This trajectory was held out: the model never saw it."
    return "The shaded part was not used for training." if recording.training < len(recording.truth) else ""


def _json(figure) -> str:
    """The figure as JSON that cannot end the script it stands in."""
    return json.dumps(figure.to_plotly_json(), default=_plain).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def _plain(value):
    return [_plain(item) if hasattr(item, "tolist") else item for item in value.tolist()]
