"""What all pages share: one self-contained HTML file that opens from disk and needs no network."""

import dataclasses
import json

import jinja2
import markupsafe
import plotly.graph_objects as go
import plotly.offline

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("fnode.report"), autoescape=True, undefined=jinja2.StrictUndefined
)
ENVIRONMENT.filters["figure"] = lambda value: "-" if value is None else f"{value:.3g}"


def coded(text: str) -> markupsafe.Markup:
    """Text whose words between backticks are code; everything in it is shown, never run."""
    parts = [
        f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(str(markupsafe.escape(text)).split("`"))
    ]
    return markupsafe.Markup("".join(parts))


ENVIRONMENT.filters["coded"] = coded


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure with its heading and a sentence about it."""

    title: str
    figure: go.Figure
    note: str = ""

    @property
    def json(self) -> str:
        """The figure as JSON that cannot end the script it stands in."""
        text = json.dumps(self.figure.to_plotly_json(), default=_plain)
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028")


def render(template: str, title: str, pictures: list[Picture], **values) -> str:
    """A page from its template; names from files are shown, never run."""
    page = ENVIRONMENT.get_template(template)
    return page.render(title=title, pictures=pictures, plotly=plotly.offline.get_plotlyjs(), **values)


def _plain(array):
    return array.tolist()
