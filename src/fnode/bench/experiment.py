"""An experiment as a value: cells that can be computed one by one, and what to make of them."""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Cell:
    """One computation of an experiment: everything it depends on, as plain values."""

    inputs: dict[str, Any]

    @property
    def name(self) -> str:
        return " ".join(str(value) for value in self.inputs.values())


@dataclasses.dataclass(frozen=True)
class Heading:
    """A part of the presentation: a heading, a sentence, and a table of rows under column names."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [" | ".join(self.columns), " | ".join("---" for _ in self.columns), *(" | ".join(r) for r in self.rows)]
        return f"## {self.title}\n\n{self.text}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n"


class AbstractExperiment(abc.ABC):
    """A table or figure: the cells it needs, how one is computed, how all of them are shown."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abc.abstractmethod
    def cells(self, seeds: int, quick: bool) -> list[Cell]:
        """What must be computed; `quick` is a smoke test with small budgets."""

    @abc.abstractmethod
    def compute(self, cell: Cell) -> dict[str, Any]:
        """The results of one cell, as plain values."""

    @abc.abstractmethod
    def present(self, results: list[tuple[Cell, dict[str, Any]]]) -> list[Heading]:
        """The tables that finished cells make."""

    def figures(self, results: list[tuple[Cell, dict[str, Any]]]) -> "dict[str, Figure]":
        """The figures that finished cells make, by the name of their files; none unless an experiment draws some."""
        return {}
