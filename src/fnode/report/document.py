"""What all pages share: one self-contained HTML file that opens from disk and needs no network."""

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import jinja2
import markupsafe
import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from fnode.trajectory import Column

MOST_ROWS = 4  # of panels in one picture
NEGATIVE_POWER = re.compile(r"[\d.]+e-\d+")  # browsers would break a line at its hyphen

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("fnode.report"), autoescape=True, undefined=jinja2.StrictUndefined
)
ENVIRONMENT.filters["figure"] = lambda value: "-" if value is None else f"{value:.3g}"


def coded(text: str) -> markupsafe.Markup:
    """Text whose words between backticks are code; everything in it is shown, never run. A power of ten stays whole."""
    whole = NEGATIVE_POWER.sub(r'<span class="number">\g<0></span>', str(markupsafe.escape(text)))
    parts = [f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(whole.split("`"))]
    return markupsafe.Markup("".join(parts))


ENVIRONMENT.filters["coded"] = coded


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure with its heading and a sentence about it; one with frames gets a slider and a button to play them."""

    title: str
    figure: go.Figure
    note: str = ""

    @property
    def frames(self) -> int:
        figure: Any = self.figure  # plotly's stub does not know what frames are
        return len(figure.frames)

    @property
    def json(self) -> str:
        """The figure as JSON that cannot end the script it stands in."""
        text = json.dumps(self.figure.to_plotly_json(), default=_plain)
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028")


def stacked(
    title: str, note: str, columns: Sequence[Column], draw: Callable[[Sequence[int]], go.Figure]
) -> tuple[Picture, ...]:
    """A picture with a row for each column, or several pictures where one would not fit on a sheet of paper."""
    groups = [group.tolist() for group in np.array_split(np.arange(len(columns)), -(-len(columns) // MOST_ROWS))]
    names = [", ".join(columns[i].name for i in group) for group in groups]
    titles = [title] if len(groups) == 1 else [f"{title}: {shown}" for shown in names]
    return tuple(Picture(each, draw(group), note) for each, group in zip(titles, groups, strict=True))


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a page that its contents name; the template's block `name` is the text above its pictures."""

    name: str
    title: str
    pictures: tuple[Picture, ...] = ()


def render(template: str, title: str, sections: Sequence[Section], **values) -> str:
    """A page from its template; names from files are shown, never run."""
    page = ENVIRONMENT.get_template(template)
    plotly = get_plotlyjs() if any(section.pictures for section in sections) else None
    return page.render(title=title, sections=sections, plotly=plotly, **values)


def _plain(array):
    return array.tolist()
