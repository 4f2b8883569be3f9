"""Networks by least squares, from a linear start where they have a skip."""

import math
import time
from collections.abc import Callable, Iterator, Sequence

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from fnode.config import Network
from fnode.field import AbstractField
from fnode.models import FNODE, Library, LibraryNetwork, Quadratic, is_trainable
from fnode.selection.candidate import AS_GOOD, LINEAR, Candidate, Verdict
from fnode.selection.folds import Fold
from fnode.selection.problem import Problem
from fnode.structures import fresh
from fnode.training import Labelled, LeastSquares, Solution, weighted_residual

RIDGES, NOISY_RIDGES = (1e-6, 1e-9), (1e-2, 1e-4, 1e-6)


def linear(problem: Problem, key: PRNGKeyArray) -> Candidate:
    """Accelerations linear in the state: the network beside the skip stays silent."""
    began = time.perf_counter()

    def fit(fold: Fold) -> tuple[AbstractField, np.ndarray]:
        model = fresh(LINEAR, problem.columns, key, problem.plain)
        assert isinstance(model, FNODE)
        return _linear_start(model, problem.masked(fold)), np.zeros(0)

    fitted = tuple(fit(fold)[0] for fold in problem.folds)
    (errors,) = problem.judge([[field] for field in fitted])
    return Candidate(Verdict(LINEAR, 0.0, errors, seconds=time.perf_counter() - began), fitted, fit)


def networks(problem: Problem, network: Network, key: PRNGKeyArray) -> Iterator[Candidate]:
    """A network under every ridge."""

    def begin(fold: Fold) -> AbstractField:
        model = fresh(network, problem.columns, key, problem.plain)
        return _linear_start(model, problem.masked(fold)) if isinstance(model, FNODE | Quadratic) else model

    yield from _descending(problem, network, begin)


def library_networks(problem: Problem, library: Candidate, key: PRNGKeyArray) -> Iterator[Candidate]:
    """A small network beside the library of a candidate, under every ridge; what was pruned stays away."""
    network = library.verdict.network.model_copy(update={"structure": "library_network", "width": 16, "depth": 1})

    def begin(fold: Fold) -> AbstractField:
        model = fresh(network, problem.columns, key, problem.plain)
        assert isinstance(model, LibraryNetwork)
        known = next((field for each, field in zip(problem.folds, library.fitted, strict=True) if each is fold), None)
        return eqx.tree_at(lambda m: m.library, model, library.fit(fold)[0] if known is None else known)

    yield from _descending(problem, network, begin)


def _descending(problem: Problem, network: Network, begin: Callable[[Fold], AbstractField]) -> Iterator[Candidate]:
    """One candidate for each ridge, from the strongest down: each begins where the last one ended.

    Labels with noise can be fitted too well: where less ridge does harm, still less is not tried.
    """
    ridges, least = NOISY_RIDGES if problem.noisy else RIDGES, math.inf

    def improve(model: AbstractField, ridge: float, fold: Fold) -> Solution:
        return LeastSquares().minimise(
            model, weighted_residual, problem.masked(fold), ridge=ridge, strength=strength(model, beside=0.0)
        )

    def descent(model: AbstractField, ridges: Sequence[float], fold: Fold) -> list[Solution]:
        solutions = []
        for ridge in ridges:
            solutions.append(improve(model, ridge, fold))
            model = solutions[-1].model
        return solutions

    fitted = [begin(fold) for fold in problem.folds]
    for number, ridge in enumerate(ridges):
        began = time.perf_counter()
        fitted = [improve(field, ridge, fold).model for field, fold in zip(fitted, problem.folds, strict=True)]
        (errors,) = problem.judge([[field] for field in fitted])
        good = max(errors) <= problem.good

        def fit(fold: Fold, number=number, fitted=tuple(fitted), good=good) -> tuple[AbstractField, np.ndarray]:
            # A fit may end in a valley that is not the deepest: those to parts of the data lead to others. Where they
            # are good already, they lead on at once.
            ways = [descent(field, ridges[number : number + 1], fold) for field in (fitted[:1] if good else fitted)]
            ways += [] if good else [descent(begin(fold), ridges[: number + 1], fold)]
            solutions = min(ways, key=lambda way: way[-1].cost if math.isfinite(way[-1].cost) else math.inf)
            return solutions[-1].model, np.concatenate([solution.history for solution in solutions])

        verdict = Verdict(network, ridge, errors, seconds=time.perf_counter() - began)
        yield Candidate(verdict, tuple(fitted), fit)
        if problem.noisy and verdict.merit > AS_GOOD * least:
            return
        least = min(least, verdict.merit)


def strength(model: AbstractField, *, beside: float):
    """How much of a ridge each parameter feels: the weights of networks all of it, what stands beside them as given,
    and coefficients of a library that were dropped infinitely much: they stay away."""

    def felt(node):
        if isinstance(node, Library):
            return jax.tree.map(lambda leaf: jnp.where(leaf == 0, jnp.inf, beside), node)
        value = 1.0 if isinstance(node, eqx.nn.MLP) else beside
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, value), node)

    return jax.tree.map(
        felt, eqx.filter(model, is_trainable(model)), is_leaf=lambda node: isinstance(node, Library | eqx.nn.MLP)
    )


def _linear_start(model: FNODE | Quadratic, samples: Labelled) -> FNODE | Quadratic:
    """The model with its network silent and its skip the best linear one."""
    silent = eqx.tree_at(lambda m: m.network.layers[-1].weight, model, replace_fn=jnp.zeros_like)
    if silent.skip is None:
        return model
    return _solve_skip(silent, samples)


@eqx.filter_jit
def _solve_skip(model, samples: Labelled):
    where = lambda m: (m.skip, m.network.layers[-1].bias)  # noqa: E731
    free, rebuild = jax.flatten_util.ravel_pytree(where(model))

    def residuals(p):
        moved = eqx.tree_at(where, model, rebuild(p))
        return jax.vmap(lambda s: weighted_residual(moved, s))(samples).reshape(-1)

    slope = jax.jacfwd(residuals)(jnp.zeros_like(free))
    best = jnp.linalg.lstsq(slope, -residuals(jnp.zeros_like(free)), rcond=1e-12)[0]
    return eqx.tree_at(where, model, rebuild(best))
