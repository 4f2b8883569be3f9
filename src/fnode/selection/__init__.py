"""Which structure to trust: candidates from cheap to rich, judged by rollouts over windows they were not fitted to."""

from fnode.selection.candidate import AS_GOOD, LINEAR, Candidate, Verdict, best_of, describe, merit
from fnode.selection.folds import Fold, Part, folds
from fnode.selection.problem import NOISY, Problem
from fnode.selection.select import Choice, select

__all__ = [
    "AS_GOOD",
    "LINEAR",
    "NOISY",
    "Candidate",
    "Choice",
    "Fold",
    "Part",
    "Problem",
    "Verdict",
    "best_of",
    "describe",
    "folds",
    "merit",
    "select",
]
