"""The search: which candidates are tried, in which order, and when it is over."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import PRNGKeyArray

from fnode.config import Network
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.selection.candidate import Candidate, Verdict, best_of, describe
from fnode.selection.folds import EVERYTHING, Part
from fnode.selection.libraries import EXACT, libraries
from fnode.selection.networks import library_networks, linear, networks
from fnode.selection.polish import polished
from fnode.selection.problem import Problem, steep
from fnode.solvers import AbstractSolver
from fnode.trajectory import Columns

NETWORKS: tuple[Network, ...] = (
    Network(structure="lagrangian", width=16, depth=1, angles="sincos", scale=True),
    Network(structure="quadratic", width=24, depth=2, angles="sincos", scale=True),
    Network(structure="linear_skip", width=32, depth=2, angles="plain", scale=True),
    Network(structure="linear_skip", width=32, depth=2, angles="sincos", scale=True),
    Network(structure="mlp", width=32, depth=2, angles="plain", scale=True),
)
"""From the one whose form holds outside the data to the one that is free."""
FINE = 1e-2  # relative squared error of a library, alone or with a network, at which networks alone are not tried
FAIR = 0.05  # relative squared error at which a learned Lagrangian is trusted rather than freer networks tried


@dataclasses.dataclass(frozen=True)
class Choice:
    """The field of the best candidate fitted to all of the training part, and the ranking that led to it."""

    field: AbstractField
    verdict: Verdict
    ranking: tuple[Verdict, ...]
    history: np.ndarray
    seconds_compile: float
    seconds_train: float


def select(
    columns: Columns,
    parts: Sequence[Part],
    *,
    structures: Sequence[str],
    noise: float,
    solver: AbstractSolver,
    key: PRNGKeyArray,
    report: Callable[[str], None] = lambda line: None,
) -> Choice:
    """The best of the candidates that `structures` allow, fitted to all parts.

    `noise` is the measured noise relative to the spread of the states. The worst window counts and a rollout that
    leaves for good disqualifies. Richer structures are tried only while the cheaper ones are not good enough.
    """
    began = time.perf_counter()
    problem = Problem(columns, parts, solver, noise)
    tried: list[Candidate] = []
    for candidate in _candidates(problem, structures, key, tried):
        tried.append(candidate)
        report(f"{describe(candidate.verdict)}: worst error {candidate.verdict.worst:.1e}")
    if not tried:
        raise InputError(
            f"none of the structures {', '.join(structures)} suits these data: allow others, such as linear_skip, in "
            "--set structures="
        )
    for candidate in _polished(problem, tried):
        tried.append(candidate)
        report(f"{describe(candidate.verdict)}: worst error {candidate.verdict.worst:.1e}")
    best = best_of(tried)
    field, history = best.fit(EVERYTHING)
    ranking = sorted((candidate.verdict for candidate in tried), key=lambda verdict: verdict.merit)
    seconds = time.perf_counter() - began - problem.seconds_compile
    return Choice(field, best.verdict, tuple(ranking), history, problem.seconds_compile, seconds)


def _candidates(
    problem: Problem, structures: Sequence[str], key: PRNGKeyArray, tried: list[Candidate]
) -> Iterator[Candidate]:
    """Candidates in order of their cost, each judged; ends when what was tried is good enough."""

    def reached(error: float) -> bool:
        return any(candidate.verdict.worst <= error for candidate in tried)

    if "library" in structures:
        # What noise took from a library, shooting gives back at little cost; friction or a network would only fit the
        # noise.
        yield from libraries(problem)
        if reached(FINE):
            yield from _polished(problem, tried)
        if reached(problem.good):
            return
        yield from libraries(problem, "dry")
        if reached(problem.good):
            return
        for coefficient in (*(column.name for column in problem.columns.parameters), None):
            if not reached(FINE):
                yield from libraries(problem, "load", coefficient)
        if reached(FINE) and steep(best_of(tried).fitted[0]):
            return
        yield from _polished(problem, tried)
        if reached(problem.good):
            return
    if "library_network" in structures and tried:
        yield from library_networks(problem, best_of(tried), key)
    if reached(max(FINE, problem.good)):
        return
    if "linear_skip" in structures:
        yield linear(problem, key)
        if reached(EXACT):
            return
    turning = any(column.angle for column in problem.columns.coordinates)
    for network in NETWORKS:
        twice = network.structure == "linear_skip" and network.angles == "sincos" and not turning
        if network.structure not in structures or twice:
            continue
        yield from networks(problem, network, key)
        if reached(FAIR if network.structure == "lagrangian" else problem.good):
            return


def _polished(problem: Problem, tried: list[Candidate]) -> Iterator[Candidate]:
    """The best candidate after multiple shooting, where data are noisy and it can be had."""
    if not tried or not problem.noisy:
        return
    best = best_of(tried)
    done = best.verdict.polished or any(candidate.polished_from is best for candidate in tried)
    # Shots with friction that turns over at a small rate would take too long.
    if math.isfinite(best.verdict.worst) and not done and not steep(best.fitted[0]):
        yield polished(problem, best)
