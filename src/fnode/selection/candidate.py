"""A candidate, and what it was worth."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from fnode.config import Network
from fnode.field import AbstractField
from fnode.selection.folds import Fold

LINEAR = Network(structure="linear_skip", width=1, depth=1, angles="plain", scale=True)
"""A linear map alone: its network stays silent."""
FRICTION = {"none": "", "dry": ", friction", "load": ", friction by load"}
AS_GOOD = 1.2  # a cheaper candidate wins unless it is worse by this factor


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a candidate was worth: its rollout errors over the windows, in units of each column's spread, squared."""

    network: Network
    ridge: float
    errors: tuple[float, ...]
    kept: int | None = None  # coefficients of a library
    polished: bool = False
    seconds: float = 0.0

    @property
    def worst(self) -> float:
        return max(self.errors)

    @property
    def merit(self) -> float:
        return merit(self.errors)

    @property
    def random(self) -> bool:
        """Whether the candidate began with random weights."""
        return self.network.structure != "library" and self.network != LINEAR


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A judged candidate: its fields by fold, and how it is fitted to what a fold leaves (with the cost on the way)."""

    verdict: Verdict
    fitted: tuple[AbstractField, ...]
    fit: Callable[[Fold], tuple[AbstractField, np.ndarray]]
    polished_from: "Candidate | None" = None


def merit(errors: Sequence[float]) -> float:
    """By what candidates are compared, the less the better: the geometric mean of the worst and the typical window.

    The worst one alone would let the window decide where nothing can be foretold, the typical one alone would not see
    a structure that fails now and then.
    """
    if not math.isfinite(max(errors)):
        return math.inf
    return math.sqrt(max(errors) * math.exp(float(np.mean(np.log(np.maximum(errors, 1e-300))))))


def describe(verdict: Verdict) -> str:
    """A candidate in a few words."""
    network = verdict.network
    shown = ", angles by sine and cosine" if network.structure == "linear_skip" and network.angles == "sincos" else ""
    size = f"{network.depth} x {network.width}{shown}"
    if network.structure == "library":
        terms = "joints" if network.joints else f"degree {network.degree}"
        size = f"{terms}, {verdict.kept} coefficients{FRICTION[network.friction]}"
    ridge = f", ridge {verdict.ridge:.0e}" if verdict.ridge else ""
    return f"{network.structure}, {size}{ridge}{', polished' if verdict.polished else ''}"


def best_of(tried: Sequence[Candidate]) -> Candidate:
    """The candidate of least error; an earlier, cheaper one where it is about as good, polished if no worse."""
    least = min(candidate.verdict.merit for candidate in tried)
    best = next(c for c in tried if c.verdict.merit <= AS_GOOD * least or not math.isfinite(least))
    return next((c for c in tried if c.polished_from is best and c.verdict.merit <= best.verdict.merit), best)
