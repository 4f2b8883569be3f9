"""Lagrangian libraries of rising degree, in closed form."""

import math
import time
from collections.abc import Iterator
from typing import Literal

import equinox as eqx
import jax
import numpy as np

from fnode.config import Network
from fnode.models import Library, is_trainable, of_degree, of_joints, trimmed
from fnode.selection.candidate import AS_GOOD, Candidate, Verdict, merit
from fnode.selection.folds import Fold
from fnode.selection.problem import Problem, steep
from fnode.structures import fresh
from fnode.training import LibraryFit, sought

RIDGES = tuple(10.0 ** -np.arange(24, 0, -2))
DEGREES = (1, 2, 3, 4, 6, 8, 10)
PRUNINGS = 16  # numbers of coefficients that are tried, beside the ridges
MOST_COEFFICIENTS = 500  # beyond, a library is neither cheap nor well determined
MOST_VALUES = 2e8  # of a library's design, all terms of its degree counted: 1.6 GB
SHARED, MOST_SHARED = 2, 2000  # lower degrees are fitted in the programs of this one, if it has no more coefficients
HOPELESS = 4  # times that more terms brought nothing where no rollout stayed at all
FEW = 4  # of steep candidates, whose rollouts take long, those that foretell held-out labels best
EXACT = 1e-12  # relative squared error of a rollout that nothing can better


def _coefficients(problem: Problem, network: Network) -> int:
    """How many coefficients a library has, all terms of its degree counted."""

    def leaves():
        model = fresh(network, problem.columns, jax.random.key(0))
        return jax.tree.leaves(eqx.filter(model, is_trainable(model)))

    return sum(leaf.size for leaf in jax.eval_shape(leaves))


def _affordable(problem: Problem, network: Network) -> bool:
    """Whether a library has no more coefficients than are cheap, and well determined by the samples."""
    count = _coefficients(problem, network)
    if count * problem.samples.rate.size > MOST_VALUES:
        return False
    if network.joints:
        model = _model(problem, network)
        count = len(sought(model, of_joints(model)))
    return count <= min(MOST_COEFFICIENTS, problem.samples.rate.size / 2)


def libraries(
    problem: Problem, friction: Literal["none", "dry", "load"] = "none", coefficient: str | None = None
) -> Iterator[Candidate]:
    """Libraries of rising degree, and early on one of joints, until more terms have twice brought nothing."""
    least, worse = math.inf, 0
    for degree, joints in ((0, False), (2, True), *((degree, False) for degree in DEGREES)):
        network = Network(
            structure="library",
            degree=degree,
            joints=joints,
            friction=friction,
            coefficient=coefficient,
            scale=True,
            angles="sincos",
        )
        if not _affordable(problem, network):
            if joints:
                continue
            return
        candidate = _library(problem, network)
        yield candidate
        if candidate.verdict.merit < least / AS_GOOD:
            worse = 0
        elif not joints:
            worse += 1
        least = min(least, candidate.verdict.merit)
        if least <= EXACT or worse >= (2 if math.isfinite(least) else HOPELESS) or (worse and least <= problem.good):
            return


def _library(problem: Problem, network: Network) -> Candidate:
    """The best ridge, or number of coefficients, of a library of one degree."""
    began = time.perf_counter()
    model = _model(problem, _shared(problem, network))
    allowed = of_joints(model) if network.joints else of_degree(model, network.degree)
    fit = LibraryFit(model, problem.plain, allowed)
    sizes = [int(size) for size in np.unique(np.round(np.geomspace(min(3, fit.size), fit.size, PRUNINGS)))]
    if not steep(model):
        sizes += [fit.size] * (PRUNINGS - len(sizes))  # as many for all: another number would be another program

    def fields(fold: Fold) -> list[Library]:
        used = problem.used(fold)
        return [*fit.solve(RIDGES, used), *fit.prune(sizes, used)]

    def trim(field: Library) -> Library:
        return field if model.load is not None else trimmed(field, network.degree)

    fitted = [fields(fold) for fold in problem.folds]
    numbers = list(range(len(fitted[0])))
    if steep(model):
        misses = [fit.misses(found, ~problem.used(fold)) for found, fold in zip(fitted, problem.folds, strict=True)]
        numbers = sorted(np.argsort(np.max(misses, axis=0))[:FEW].tolist())
    judged = dict(zip(numbers, problem.judge([[found[k] for k in numbers] for found in fitted]), strict=True))
    # Of those about as good, the fewest coefficients or else the largest ridge: no more than the data asks for.
    least = min(merit(errors) for errors in judged.values())
    alike = [k for k, errors in judged.items() if merit(errors) <= AS_GOOD * least or not math.isfinite(least)]
    number = min(alike, key=lambda k: k if k >= len(RIDGES) else 2 * len(fitted[0]) - k)
    ridge = RIDGES[number] if number < len(RIDGES) else 0.0
    kept = fit.size if ridge else sizes[number - len(RIDGES)]
    verdict = Verdict(network, ridge, judged[number], kept=kept, seconds=time.perf_counter() - began)
    return Candidate(
        verdict, tuple(trim(found[number]) for found in fitted), lambda fold: (trim(fields(fold)[number]), np.zeros(0))
    )


def _shared(problem: Problem, network: Network) -> Network:
    """The library that a library is part of and whose compiled programs serve for it."""
    wide = network.model_copy(update={"degree": max(SHARED, network.degree)})
    shares = network.friction != "load" and _coefficients(problem, wide) <= MOST_SHARED
    return wide if shares else network


def _model(problem: Problem, network: Network) -> Library:
    model = fresh(network, problem.columns, jax.random.key(0), problem.plain)
    assert isinstance(model, Library)
    return model
