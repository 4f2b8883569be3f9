"""`fnode check`: what the data is like, before any training."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fnode.cli._shared import AsJson, Settings, app, console, prepare_jax, print_json, roles

SHOWN = 12  # trajectories with a line of their own
SAMPLING = ("trajectory", "split", "samples", "seconds", "dt", "jitter", "gaps", "repeat", "back", "missing")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A trajectory file.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a file is like: roles of its columns, sampling, noise, and whether it is enough to learn from.

    Example: `fnode check swing.csv`.
    """
    prepare_jax()
    from fnode.analysis import quality
    from fnode.io import Roles

    found = quality(file, Roles.of(roles(settings)))
    if as_json:
        print_json(_document(file, found))
        return
    for line in found.roles.lines():
        _say(line)
    console.print(_samplings(found.samplings), "", _channels(found), "")
    _say(f"as TOML:     {_toml(found)}")
    _say(f"derivatives: {_derivatives(found)}")
    for advice in found.advice:
        _say(f"advice:      {advice}")
    for problem in found.problems:
        _say(f"problem:     {problem}")
    _say("verdict:     " + ("enough to learn from" if found.enough else "see to the problems before learning"))


def _document(file: Path, found) -> dict:
    import dataclasses

    def gaps(each):
        return [{"row": row, "length": length} for row, length in each.gaps]

    return {
        "file": str(file),
        "roles": {**found.roles.as_values(), "ignored": list(found.roles.ignored)},
        "toml": _toml(found),
        "trajectories": [dataclasses.asdict(each) | {"gaps": gaps(each)} for each in found.samplings],
        "columns": [dataclasses.asdict(each) for each in found.channels],
        "derivatives": {
            "suggested": found.differentiator,
            "trajectories": found.looked_at,
            "coordinates": [dataclasses.asdict(each) for each in found.motions],
        },
        "advice": list(found.advice),
        "problems": list(found.problems),
        "enough": found.enough,
    }


def _toml(found) -> str:
    from fnode.io import toml

    return toml(found.roles.as_values())


def _say(line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _number(value) -> str:
    return "-" if value is None else f"{value:.3g}"


def _rows(rows) -> str:
    return str(len(rows)) if rows else "-"


def _samplings(samplings) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in SAMPLING:
        table.add_column(heading, justify="left" if heading in ("trajectory", "split") else "right", no_wrap=True)
    for each in samplings[:SHOWN]:
        figures = [_number(value) for value in (each.duration, each.dt, each.jitter)]
        flaws = (_rows([row for row, _ in each.gaps]), _rows(each.repeated), _rows(each.backward), str(each.missing))
        table.add_row(Text(each.name), each.split or "-", str(each.samples), *figures, *flaws)
    if len(samplings) > SHOWN:
        rest = samplings[SHOWN:]
        table.add_row(f"... {len(rest)} more", "", str(sum(each.samples for each in rest)))
    return table


def _channels(found) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("column", "role", "least", "most", "missing", "noise", "of spread", "outliers"):
        table.add_column(heading, justify="left" if heading in ("column", "role") else "right", no_wrap=True)
    for each in found.channels:
        figures = (_number(each.least), _number(each.most), str(each.missing), _number(each.noise))
        table.add_row(Text(each.name), each.role, *figures, _number(each.noise_relative), str(each.outliers))
    return table


def _derivatives(found) -> str:
    if not found.motions:
        return "too few sound samples to draw any"
    parts = [
        f"{each.name}: {each.method}, expected error {_number(each.error_relative)} of the spread, "
        f"{_number(each.samples_per_oscillation)} samples per oscillation"
        for each in found.motions
    ]
    return f"labels=auto ({found.looked_at} of {len(found.samplings)} trajectories looked at): " + "; ".join(parts)
