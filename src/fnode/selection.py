"""Which structure to trust: candidates from cheap to rich, judged by rollouts over windows they were not fitted to."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fnode.config import Network
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.models import FNODE, Library, LibraryNetwork, Quadratic, is_trainable
from fnode.solvers import AbstractSolver, rollout
from fnode.structures import fresh
from fnode.training import (
    Labelled,
    LeastSquares,
    LibraryFit,
    Shooting,
    ShootingResidual,
    Shot,
    weighted_residual,
)
from fnode.trajectory import Columns, State, Trajectory

LIBRARY_RIDGES = tuple(10.0 ** -np.arange(24, 0, -2))
NETWORK_RIDGES = (1e-6, 1e-9)
NETWORKS: tuple[Network, ...] = (
    Network(structure="lagrangian", width=16, depth=1, angles="sincos", scale=True),
    Network(structure="quadratic", width=24, depth=2, angles="sincos", scale=True),
    Network(structure="linear_skip", width=32, depth=2, angles="plain", scale=True),
    Network(structure="linear_skip", width=32, depth=2, angles="sincos", scale=True),
    Network(structure="mlp", width=32, depth=2, angles="plain", scale=True),
)
"""From the one whose form holds outside the data to the one that is free."""
LINEAR = Network(structure="linear_skip", width=1, depth=1, angles="plain", scale=True)
LIBRARY_DEGREES = (0, 1, 2, 3, 4, 6, 8, 10)
PRUNINGS = 16  # numbers of coefficients that are tried, beside the ridges
MOST_COEFFICIENTS = 400  # of a library: beyond, it is neither cheap nor well determined
MOST_SAMPLES = 4000  # for a fit: neighbours tell the same, so more are thinned out
MOST_WINDOWS = 6  # rollouts by which a candidate is judged, per fold
MOST_SHOTS = 40  # windows of a polish
SHOOTING_RIDGE, PRUNED = 1e-6, 1e12  # how firmly coefficients stay where they were, and those that are zero
MOST_SHOT_SAMPLES = 200  # of one window; a longer one is seen at every few samples
EXACT = 1e-12  # relative squared error of a rollout that nothing can better
GOOD = 1e-6  # relative squared error of a rollout at which less structured candidates are not worth their risk
NOISY = 1e-6  # relative noise above which states are estimated rather than read
FAIR = 0.05  # relative squared error at which a learned Lagrangian is trusted rather than freer networks tried
AS_GOOD = 1.2  # a cheaper candidate wins unless it is worse by this factor


@dataclasses.dataclass(frozen=True)
class Part:
    """One training trajectory: what was measured, its states without noise where known, its labelled samples."""

    measured: Trajectory
    smooth: Trajectory
    control: Callable | None
    samples: Labelled


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
    def random(self) -> bool:
        """Whether the candidate began with random weights."""
        return self.network.structure != "library" and self.network != LINEAR


@dataclasses.dataclass(frozen=True)
class Choice:
    """The field of the best candidate fitted to all of the training part, and the ranking that led to it."""

    field: AbstractField
    network: Network
    ranking: tuple[Verdict, ...]
    history: np.ndarray
    seconds_compile: float
    seconds_train: float


class Trial(eqx.Module):
    """A window to be predicted: from its first state, compared with its states."""

    ts: Float[Array, " samples"]
    states: Float[Array, "samples state"]
    control: Callable | None

    @property
    def start(self) -> State:
        n = self.states.shape[1] // 2
        return State(self.states[0, :n], self.states[0, n:])


@dataclasses.dataclass(frozen=True)
class Fold:
    """Stretches of time that a candidate may not be fitted to, by number of part, and the windows that judge it."""

    held: tuple[tuple[int, float, float], ...]
    trials: tuple[Trial, ...]

    def allows(self, number: int, first: float, last: float) -> bool:
        """Whether a stretch of a part is free of what is held out."""
        return not any(part == number and first <= until and last >= since for part, since, until in self.held)


EVERYTHING = Fold((), ())


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
    problem = _Problem(columns, parts, solver, noise)
    tried: list[_Candidate] = []
    for candidate in _candidates(problem, structures, key, tried):
        tried.append(candidate)
        report(f"{describe(candidate.verdict)}: worst error {candidate.verdict.worst:.1e}")
    if not tried:
        raise InputError(
            f"none of the structures {', '.join(structures)} suits these data: allow others, such as linear_skip, in "
            "--set structures="
        )
    if problem.noisy and math.isfinite(_best(tried).verdict.worst):
        tried.append(_best(tried).polish())
        report(f"{describe(tried[-1].verdict)}: worst error {tried[-1].verdict.worst:.1e}")
    best = _best(tried)
    field, history = best.refit()
    ranking = sorted((c.verdict for c in tried), key=lambda verdict: verdict.worst)
    seconds = time.perf_counter() - began
    return Choice(field, best.verdict.network, tuple(ranking), history, problem.seconds_compile, seconds)


def describe(verdict: Verdict) -> str:
    """A candidate in a few words."""
    network = verdict.network
    shown = ", angles by sine and cosine" if network.structure == "linear_skip" and network.angles == "sincos" else ""
    size = f"{network.depth} x {network.width}{shown}"
    if network.structure == "library":
        size = f"degree {network.degree}, {verdict.kept} coefficients"
    ridge = f", ridge {verdict.ridge:.0e}" if verdict.ridge else ""
    return f"{network.structure}, {size}{ridge}{', polished' if verdict.polished else ''}"


def _best(tried: "Sequence[_Candidate]") -> "_Candidate":
    """The candidate of least worst error; an earlier, cheaper one where it is about as good."""
    least = min(candidate.verdict.worst for candidate in tried)
    return next(c for c in tried if c.verdict.worst <= AS_GOOD * least or not math.isfinite(least))


class _Problem:
    """The data of a selection, cut into folds, and what all candidates share."""

    def __init__(self, columns: Columns, parts: Sequence[Part], solver: AbstractSolver, noise: float):
        self.columns, self.parts, self.solver = columns, parts, solver
        self.shortest = min(len(part.smooth) for part in parts)
        states = np.concatenate([part.smooth.states for part in parts])
        self.spread = jnp.asarray(np.maximum(np.std(states, axis=0), 1e-12))
        self.noisy = noise > NOISY
        self.good = max(GOOD, 1.5 * noise**2)
        whole = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(part.samples for part in parts))
        owner = np.concatenate([np.full(len(part.samples.t), number) for number, part in enumerate(parts)])
        step = math.ceil(len(owner) / MOST_SAMPLES)
        samples = jax.tree.map(lambda leaf: leaf[::step], whole)
        worth = 1 / jnp.maximum(jnp.var(samples.rate, axis=0), 1e-24)
        weight = jnp.broadcast_to(worth, samples.rate.shape)
        self.plain = samples  # weights as the labels give them
        self.samples = dataclasses.replace(
            samples, weight=weight if samples.weight is None else weight * samples.weight
        )
        self.owner = owner[::step]
        self.folds = tuple(_folds(parts))
        self.seconds_compile = 0.0

    def judge(self, fields: Sequence[Sequence[AbstractField]]) -> list[tuple[float, ...]]:
        """The errors of several candidates: for each fold the fields fitted to it, all of one structure."""
        errors: list[list[float]] = [[] for _ in fields[0]]
        for fold, fitted in zip(self.folds, fields, strict=True):
            stacked = jax.tree.map(lambda *ls: jnp.stack(ls) if eqx.is_array(ls[0]) else ls[0], *fitted)
            for trial in fold.trials:
                found = np.asarray(_errors(stacked, trial, self.solver, self.spread))
                for own, error in zip(errors, found, strict=True):
                    own.append(float(error) if np.isfinite(error) else math.inf)
        return [tuple(own) for own in errors]

    def used(self, fold: Fold) -> np.ndarray:
        """Which samples a fold leaves for fitting."""
        times = np.asarray(self.samples.t)
        return np.array(
            [fold.allows(number, t, t) for number, t in zip(self.owner.tolist(), times.tolist(), strict=True)]
        )

    def masked(self, fold: Fold) -> Labelled:
        """The samples with no weight outside the fold: the shapes, and so the compiled programs, stay the same."""
        assert self.samples.weight is not None
        return dataclasses.replace(self.samples, weight=self.samples.weight * self.used(fold)[:, None])


@eqx.filter_jit
def _errors(fields, trial: Trial, solver: AbstractSolver, spread):
    def one(field):
        x = rollout(field, trial.start, trial.ts, control=trial.control, solver=solver)
        return jnp.mean(((jnp.concatenate([x.q, x.v], axis=1) - trial.states) / spread) ** 2)

    return eqx.filter_vmap(one)(fields)


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """A judged candidate that knows how to be fitted to everything, and polished."""

    problem: _Problem
    verdict: Verdict
    fitted: tuple[AbstractField, ...]  # one per fold
    fit_all: Callable[[], tuple[AbstractField, np.ndarray]]

    def refit(self) -> tuple[AbstractField, np.ndarray]:
        field, history = self.fit_all()
        return (_polish(self.problem, field, EVERYTHING) if self.verdict.polished else field), history

    def polish(self) -> "_Candidate":
        """The same candidate after multiple shooting on the part of the data it may see."""
        began = time.perf_counter()
        polished = tuple(
            _polish(self.problem, field, fold) for field, fold in zip(self.fitted, self.problem.folds, strict=True)
        )
        (errors,) = self.problem.judge([[field] for field in polished])
        seconds = self.verdict.seconds + time.perf_counter() - began
        verdict = dataclasses.replace(self.verdict, errors=errors, polished=True, seconds=seconds)
        return dataclasses.replace(self, verdict=verdict, fitted=polished)


def _candidates(
    problem: _Problem, structures: Sequence[str], key: PRNGKeyArray, tried: list[_Candidate]
) -> Iterator[_Candidate]:
    """Candidates in order of their cost, each judged; ends when what was tried is good enough."""

    def reached(error: float) -> bool:
        return any(candidate.verdict.worst <= error for candidate in tried)

    second_order = not problem.columns.first_order
    if "library" in structures and second_order:
        yield from _libraries(problem)
        if reached(problem.good):
            return
    if "library_network" in structures and tried:
        best = min(tried, key=lambda candidate: candidate.verdict.worst)
        network = best.verdict.network.model_copy(update={"structure": "library_network", "width": 16, "depth": 1})
        yield from _network(problem, network, key, library_ridge=best.verdict.ridge)
        if reached(problem.good):
            return
    if "linear_skip" in structures:
        yield _linear(problem, key)
        if reached(EXACT):
            return
    for network in NETWORKS:
        form = network.structure in ("lagrangian", "quadratic")
        if network.structure not in structures or (form and not second_order):
            continue
        if network.structure == "linear_skip" and network.angles == "sincos" and not _turning(problem.columns):
            continue
        yield from _network(problem, network, key)
        if reached(FAIR if network.structure == "lagrangian" else problem.good):
            return


def _turning(columns: Columns) -> bool:
    return any(column.angle for column in columns.coordinates)


def _coefficients(network: Network, columns: Columns) -> int:
    shape = eqx.filter_eval_shape(lambda: fresh(network, columns, jax.random.key(0)))
    return sum(leaf.size for leaf in jax.tree.leaves((shape.mass, shape.potential, shape.damping, shape.push)))


def _libraries(problem: _Problem) -> Iterator[_Candidate]:
    """Libraries of rising degree, until more terms have twice brought nothing."""
    least, worse = math.inf, 0
    for degree in LIBRARY_DEGREES:
        network = Network(structure="library", degree=degree, scale=True, angles="sincos")
        if _coefficients(network, problem.columns) > min(MOST_COEFFICIENTS, problem.samples.rate.size / 2):
            return
        candidate = _library(problem, network)
        yield candidate
        worse = 0 if candidate.verdict.worst < least / AS_GOOD else worse + 1
        least = min(least, candidate.verdict.worst)
        if least <= EXACT or (worse >= 2 and math.isfinite(least)) or (worse and least <= problem.good):
            return


def _library(problem: _Problem, network: Network) -> _Candidate:
    """The best ridge, or number of coefficients, of a library of one degree."""
    began = time.perf_counter()
    fit = LibraryFit(_library_model(problem, network), problem.plain)
    sizes = [int(size) for size in np.unique(np.round(np.geomspace(min(3, fit.size), fit.size, PRUNINGS)))]

    def fields(fold: Fold) -> list[Library]:
        used = problem.used(fold)
        return [*fit.solve(LIBRARY_RIDGES, used), *fit.prune(sizes, used)]

    fitted = [fields(fold) for fold in problem.folds]
    judged = problem.judge(fitted)
    # Of those about as good, the fewest coefficients or else the largest ridge: no more than the data asks for.
    least = min(max(errors) for errors in judged)
    alike = [k for k, errors in enumerate(judged) if max(errors) <= AS_GOOD * least or not math.isfinite(least)]
    number = min(alike, key=lambda k: k if k >= len(LIBRARY_RIDGES) else 2 * len(judged) - k)
    ridge = LIBRARY_RIDGES[number] if number < len(LIBRARY_RIDGES) else 0.0
    kept = fit.size if ridge else sizes[number - len(LIBRARY_RIDGES)]
    verdict = Verdict(network, ridge, judged[number], kept=kept, seconds=time.perf_counter() - began)
    return _Candidate(
        problem,
        verdict,
        tuple(fields[number] for fields in fitted),
        lambda: (fields(EVERYTHING)[number], np.zeros(0)),
    )


def _library_model(problem: _Problem, network: Network) -> Library:
    kind = network.model_copy(update={"structure": "library"})
    model = fresh(kind, problem.columns, jax.random.key(0), problem.plain)
    assert isinstance(model, Library)
    return model


def _linear(problem: _Problem, key: PRNGKeyArray) -> _Candidate:
    """Accelerations linear in the state: the network beside the skip stays silent."""
    began = time.perf_counter()

    def fit(fold: Fold) -> AbstractField:
        model = fresh(LINEAR, problem.columns, key, problem.plain)
        assert isinstance(model, FNODE)
        return _linear_start(model, problem.masked(fold))

    fitted = tuple(fit(fold) for fold in problem.folds)
    (errors,) = problem.judge([[field] for field in fitted])
    verdict = Verdict(LINEAR, 0.0, errors, seconds=time.perf_counter() - began)
    return _Candidate(problem, verdict, fitted, lambda: (fit(EVERYTHING), np.zeros(0)))


def _network(
    problem: _Problem, network: Network, key: PRNGKeyArray, library_ridge: float | None = None
) -> Iterator[_Candidate]:
    """A network under every ridge, from the strongest down: each begins where the last one ended."""
    options = LeastSquares()

    def begin(fold: Fold) -> AbstractField:
        model = fresh(network, problem.columns, key, problem.plain)
        if isinstance(model, LibraryNetwork):
            library = LibraryFit(_library_model(problem, network), problem.plain)
            (best,) = library.solve([library_ridge or LIBRARY_RIDGES[0]], problem.used(fold))
            return eqx.tree_at(lambda m: m.library, model, best)
        return _linear_start(model, problem.masked(fold)) if isinstance(model, FNODE | Quadratic) else model

    def fit(model: AbstractField, ridge: float, fold: Fold):
        return options.minimise(
            model, weighted_residual, problem.masked(fold), ridge=ridge, strength=_strength(model), around=False
        )

    fitted = [begin(fold) for fold in problem.folds]
    for number, ridge in enumerate(NETWORK_RIDGES):
        began = time.perf_counter()
        for k, fold in enumerate(problem.folds):
            solution = fit(fitted[k], ridge, fold)
            problem.seconds_compile += solution.seconds_compile
            fitted[k] = solution.model
        (errors,) = problem.judge([[field] for field in fitted])

        def fit_all(number=number):
            model, history = begin(EVERYTHING), []
            for ridge in NETWORK_RIDGES[: number + 1]:
                solution = fit(model, ridge, EVERYTHING)
                model = solution.model
                history.append(solution.history)
            return model, np.concatenate(history)

        verdict = Verdict(network, ridge, errors, seconds=time.perf_counter() - began)
        yield _Candidate(problem, verdict, tuple(fitted), fit_all)


def _strength(model: AbstractField):
    """The ridge is felt by networks alone: what stands beside them is free."""
    return jax.tree.map(
        lambda node: jax.tree.map(jnp.ones_like if isinstance(node, eqx.nn.MLP) else jnp.zeros_like, node),
        eqx.filter(model, is_trainable(model)),
        is_leaf=lambda node: isinstance(node, eqx.nn.MLP),
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


def _folds(parts: Sequence[Part]) -> Iterator[Fold]:
    """Whole trajectories are held out where there are several, stretches of each otherwise."""
    if len(parts) >= 4:
        for first in (3, 1):
            held = list(range(len(parts)))[first::5]
            judges = held[:: math.ceil(len(held) / MOST_WINDOWS)]
            length = min(len(parts[number].smooth) for number in judges)
            trials = tuple(_trial(parts[number], 0, length) for number in judges)
            yield Fold(tuple((number, -math.inf, math.inf) for number in held), trials)
        return
    shortest = min(len(part.smooth) for part in parts)
    held, length = max(2, shortest // 5), max(3, shortest // 2)
    # The end is held out, then a stretch in the middle; rollouts begin before it, all with one length.
    for place, starts in ((0.8, (0.5, 0.0)), (0.4, (0.2,))) if shortest >= 50 else ((0.8, (0.5,)),):
        hidden, trials = [], []
        for number, part in enumerate(parts):
            ts = np.asarray(part.smooth.ts)
            first = min(round(place * len(ts)), len(ts) - held)
            hidden.append((number, float(ts[first]), float(ts[first + held - 1])))
            trials.extend(_trial(part, min(round(start * len(ts)), len(ts) - length), length) for start in starts)
        yield Fold(tuple(hidden), tuple(trials))


def _trial(part: Part, first: int, length: int) -> Trial:
    stretch = part.smooth[first : first + length]
    return Trial(stretch.ts, stretch.states, part.control)


def _polish(problem: _Problem, field: AbstractField, fold: Fold) -> AbstractField:
    """The field after multiple shooting on the measured samples outside the held-out stretches; coefficients that were
    pruned stay away."""
    kept = jax.tree.map(lambda leaf: jnp.where(leaf == 0, PRUNED, 1.0), eqx.filter(field, is_trainable(field)))
    shots, starts = _shots(problem, fold, max(4, problem.shortest // 4))
    solution = LeastSquares(iterations=30).minimise(
        Shooting(field, starts),
        ShootingResidual(problem.solver),
        shots,
        ridge=SHOOTING_RIDGE,
        strength=Shooting(kept, jax.tree.map(jnp.zeros_like, starts)),
        around=True,
    )
    problem.seconds_compile += solution.seconds_compile
    return solution.model.field


def _shots(problem: _Problem, fold: Fold, length: int) -> tuple[Shot, State]:
    """Stretches of the measured samples, and where each begins as far as is known.

    What a fold holds out is measured in infinite units, and so without influence: shapes stay the same.
    """
    stride = math.ceil(length / MOST_SHOT_SAMPLES)
    misses = np.concatenate([part.measured.states - part.smooth.states for part in problem.parts])
    unit = jnp.maximum(jnp.sqrt(jnp.nanmean(misses**2, axis=0)), NOISY * problem.spread)
    places = [
        (number, first)
        for number, part in enumerate(problem.parts)
        for first in range(0, len(part.smooth) - length + 1, length)
    ]
    shots, starts = [], []
    for number, first in places[:: math.ceil(len(places) / MOST_SHOTS)]:
        part, inside = problem.parts[number], slice(first, first + length, stride)
        measured = part.measured[inside]
        free = fold.allows(number, float(measured.ts[0]), float(measured.ts[-1]))
        shots.append(
            Shot(jnp.array(len(shots)), measured.ts, measured.states, measured.u, unit if free else jnp.inf * unit)
        )
        starts.append(jax.tree.map(lambda leaf, first=first: leaf[first], part.smooth.x))
    return tuple(jax.tree.map(lambda *leaves: jnp.stack(leaves), *each) for each in (shots, starts))
