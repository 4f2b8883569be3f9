"""An experiment as a value: the cells it needs, and what to make of them when they are finished."""

import abc
import dataclasses
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fnode.systems import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LATEX = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "<": "$<$",
    ">": "$>$",
    "^": r"\^{}",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One computation: the name of a task and everything it depends on, as plain values.

    Two experiments that need the same computation have equal cells. `weight` is a guess of how long it takes beside
    others; heavy cells are begun first.
    """

    task: str
    inputs: dict[str, Any]
    weight: float = dataclasses.field(default=1.0, compare=False)

    @property
    def key(self) -> str:
        """What tells it from other cells."""
        return json.dumps([self.task, self.inputs], sort_keys=True)

    @property
    def name(self) -> str:
        return " ".join([self.task, *(str(value) for value in self.inputs.values())])


Results = Sequence[tuple[Cell, dict[str, Any]]]
"""Finished cells: plain values, and under `arrays` what is too long for them, by name."""


@dataclasses.dataclass(frozen=True)
class Heading:
    """A part of the presentation: a heading, a sentence, and a table of rows under column names."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(part.replace('|', chr(92) + '|') for part in line)} |" for line in lines)
        return f"## {self.title}\n\n{self.text}\n\n{table}\n"

    def latex(self) -> str:
        """A table with rules of the package `booktabs`."""
        head, *body = [r" & ".join(map(_latex, line)) + r" \\" for line in (self.columns, *self.rows)]
        lines = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{_latex(self.title)}. {_latex(self.text)}}}"]
        lines += [rf"\begin{{tabular}}{{@{{}}{'l' * len(self.columns)}@{{}}}}", r"\toprule", head, r"\midrule", *body]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure, the name of its files, and what it shows."""

    name: str
    caption: str
    figure: "Figure"


class AbstractExperiment(abc.ABC):
    """One or more tables and figures: the cells they need, and how these are shown when all are finished."""

    name: str
    title: str
    paper: str = ""  # the numbers of its tables and figures in the paper
    needs: str | None = None  # the built-in system without which it cannot be done
    partial: bool = False  # whether its tables can be made of some of its cells

    @property
    def pending(self) -> str | None:
        """Why it cannot be done yet, if that is so."""
        there = self.needs is None or self.needs in SYSTEMS
        return None if there else f"comes with the system `{self.needs}`"

    @property
    def summary(self) -> str:
        """One line for lists."""
        return self.title + "".join(f" ({part})" for part in (self.paper, self.pending) if part)

    @abc.abstractmethod
    def cells(self, seeds: int, quick: bool) -> list[Cell]:
        """What must be computed; `quick` is a smoke test with small budgets."""

    @abc.abstractmethod
    def present(self, results: Results) -> list[Heading]:
        """The tables that finished cells make."""

    def figures(self, results: Results) -> list[Drawing]:
        """The figures that finished cells make; none unless an experiment draws some."""
        return []


def shown(values: Sequence[float | None], form: str, unit: str = "") -> str:
    """The median over seeds with its range; a rollout that left for good is infinitely wrong."""
    found = [math.inf if value is None else value for value in values]
    if not found:
        return "-"
    if len(found) == 1:
        return f"{found[0]:{form}}{unit}"
    return f"{np.median(found):{form}}{unit} ({min(found):{form}} .. {max(found):{form}})"


def middle(values: Sequence[float | None]) -> float:
    """The median over seeds; a rollout that left for good is infinitely wrong."""
    return float(np.median([math.inf if value is None else value for value in values]))


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)
