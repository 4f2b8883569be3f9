"""The search: which candidates are tried, in which order, and when it is over."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence

import jax
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
from fnode.training import CompileClock
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
ATTEMPTS = 3  # of a network on clean data that is fair but not good: it may be in a valley of its own
ALIKE = 10.0  # two attempts whose merits differ by less than this factor tell what a network can do
FAIR = 1e-2  # merit at which a learned Lagrangian is trusted rather than freer networks tried


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
    keys: Sequence[PRNGKeyArray],
    report: Callable[[str], None] = lambda line: None,
) -> list[Choice]:
    """The best of the candidates that `structures` allow, fitted to all parts: one choice for each key, or a single one
    where it has nothing random.

    `noise` is the measured noise relative to the spread of the states. The worst window counts and a rollout that
    leaves for good disqualifies. Richer structures are tried only while the cheaper ones are not good enough. What has
    nothing random is tried once for all keys, and every choice is charged for it.
    """
    began = time.perf_counter()
    problem = Problem(columns, parts, solver, noise)

    def told(candidates: Iterator[Candidate], tried: list[Candidate]) -> None:
        for candidate in candidates:
            tried.append(candidate)
            report(f"{describe(candidate.verdict)}: worst error {candidate.verdict.worst:.1e}")

    sure: list[Candidate] = []
    choices: list[Choice] = []
    with CompileClock() as compiling:
        told(_certain(problem, structures, sure), sure)
        shared, shared_compiling = time.perf_counter() - began, compiling.seconds
        for key in keys:
            began, compiled = time.perf_counter() - shared, compiling.seconds - shared_compiling
            tried = [*sure]
            told(_random(problem, structures, key, tried), tried)
            if not tried:
                raise InputError(
                    f"none of the structures {', '.join(structures)} suits these data: allow others, such as "
                    "linear_skip, in --set structures="
                )
            told(_polished(problem, tried), tried)
            best = best_of(tried)
            field, history = best.fit(EVERYTHING)
            ranking = sorted((candidate.verdict for candidate in tried), key=lambda verdict: verdict.merit)
            own = compiling.seconds - compiled
            seconds = time.perf_counter() - began - own
            choices.append(Choice(field, best.verdict, tuple(ranking), history, own, seconds))
            if not any(verdict.random for verdict in ranking):
                break  # further keys would come to the same
    return choices


def _reached(tried: Sequence[Candidate], error: float) -> bool:
    return any(candidate.verdict.worst <= error for candidate in tried)


def _over(problem: Problem, tried: Sequence[Candidate]) -> bool:
    """Whether libraries are good enough to be the answer."""
    return _reached(tried, problem.good) or (_reached(tried, FINE) and steep(best_of(tried).fitted[0]))


def _certain(problem: Problem, structures: Sequence[str], tried: list[Candidate]) -> Iterator[Candidate]:
    """Candidates with nothing random, in order of their cost, until what was tried is good enough."""
    if "library" not in structures:
        return
    # What noise took from a library, shooting gives back at little cost; friction or a network would only fit the
    # noise.
    yield from libraries(problem)
    if _reached(tried, FINE):
        yield from _polished(problem, tried)
    if _reached(tried, problem.good):
        return
    yield from libraries(problem, "dry")
    if _reached(tried, problem.good):
        return
    for coefficient in (*(column.name for column in problem.columns.parameters), None):
        if not _reached(tried, FINE):
            yield from libraries(problem, "load", coefficient)
    if not _over(problem, tried):
        yield from _polished(problem, tried)


def _random(
    problem: Problem, structures: Sequence[str], key: PRNGKeyArray, tried: list[Candidate]
) -> Iterator[Candidate]:
    """Candidates that begin at random, where libraries are not good enough."""
    if _over(problem, tried):
        return
    if "library_network" in structures and tried:
        yield from library_networks(problem, best_of(tried), key)
    if _reached(tried, max(FINE, problem.good)):
        return
    if "linear_skip" in structures:
        yield linear(problem, key)
        if _reached(tried, EXACT):
            return
    turning = any(column.angle for column in problem.columns.coordinates)
    for network in NETWORKS:
        twice = network.structure == "linear_skip" and network.angles == "sincos" and not turning
        if network.structure not in structures or twice:
            continue
        merits = []
        for attempt in range(ATTEMPTS):
            before = len(tried)
            yield from networks(problem, network, jax.random.fold_in(key, attempt) if attempt else key)
            merits.append(min(candidate.verdict.merit for candidate in tried[before:]))
            alike = sum(merit <= ALIKE * min(merits) for merit in merits) > 1
            if problem.noisy or alike or _reached(tried, problem.good) or min(merits) > FAIR:
                break
        if _reached(tried, problem.good) or (network.structure == "lagrangian" and min(merits) <= FAIR):
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
