"""One page for everything a bench folder holds: tables, figures, corrections, and how long it took."""

import base64
import dataclasses
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

from fnode.bench.experiment import Heading
from fnode.bench.run import Presented
from fnode.report import render

TITLE = "The FNODE paper, reproduced and corrected"


@dataclasses.dataclass(frozen=True)
class Part:
    """One experiment as the page shows it."""

    name: str
    title: str
    paper: str
    tables: tuple[Heading, ...]
    pictures: tuple[tuple[str, str], ...]  # caption and image
    pending: str | None
    failed: tuple[str, ...]


def page(presented: Sequence[Presented], folder: Path, *, seeds: int, quick: bool, seconds: float) -> str:
    """The page as HTML text; pictures are inside it."""
    parts = [
        Part(
            one.experiment.name,
            one.experiment.title,
            one.experiment.paper,
            one.tables,
            tuple((drawing.caption, _image(folder / f"{drawing.name}.png")) for drawing in one.drawings),
            one.experiment.pending,
            one.failed,
        )
        for one in presented
    ]
    times = [(one.experiment.name, one.cells, one.seconds) for one in presented if one.cells]
    version = importlib.metadata.version("fnode")
    facts = {"seeds": seeds, "quick": quick, "seconds": seconds, "version": version}
    return render("suite.html", TITLE, [], parts=parts, times=times, **facts)


def _image(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
