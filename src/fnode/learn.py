"""The whole way from trajectories to scored models."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fnode.config import Config, Network, merged
from fnode.constraints import Holonomic
from fnode.derivatives import Labels
from fnode.field import AbstractField
from fnode.mechanisms import Linkage
from fnode.methods import method_named, optimiser_of
from fnode.metrics import flat
from fnode.model import Model, builtin, cast, predict, untrained
from fnode.models import AbstractForecaster
from fnode.preparation import (
    Prepared,
    batch_size,
    linked,
    part_of,
    prepare,
    read_as,
    resolved,
    training_samples,
    trusted,
)
from fnode.recipes import default_recipe
from fnode.recording import Recording
from fnode.selection import NOISY, Part, Verdict, select
from fnode.solvers import enough_substeps, solver_named
from fnode.streaming import fit_streamed
from fnode.systems import AbstractSystem
from fnode.training import Fit, Progress, fit, noise_of
from fnode.trajectory import Columns, State, Trajectory

WINDOWS = 4  # stretches of each training part whose rollouts choose among seeds
STATES = 500  # of training parts, from which the error of integration is seen
ERROR = 1e-8  # of integration, relative to the spread of the rates, that is always small enough
SHARE = 1e-3  # of the field's own error, likewise


@dataclasses.dataclass(frozen=True)
class Learned:
    """What one seed came to: its field or forecaster, the loss on the way, and how long that took."""

    field: AbstractField | AbstractForecaster
    network: Network
    history: np.ndarray
    seconds_compile: float
    seconds_train: float
    substeps: int = 1  # of its rollouts, from one sample to the next
    seconds_rollout: float = 0.0  # of finding them and of its predictions
    verdict: Verdict | None = None  # of a search, with all that were tried
    ranking: tuple[Verdict, ...] = ()

    @property
    def deterministic(self) -> bool:
        """Whether nothing random had a part in it."""
        return bool(self.ranking) and not any(verdict.random for verdict in self.ranking)


@dataclasses.dataclass(frozen=True)
class Trained:
    """All seeds learned from one start: the recordings, what each seed came to, and its rollout of every recording."""

    start: int
    recordings: tuple[Recording, ...]
    labels: tuple[Labels, ...]
    seeds: tuple[Learned, ...]
    predictions: tuple[tuple[State, ...], ...]  # per seed and recording
    starts: tuple[tuple[State | None, ...], ...]  # the same: where a motion with noisy samples begins, by the model
    seconds_data: float  # and of labels
    missing: int = 0  # samples of training parts that were incomplete


@dataclasses.dataclass(frozen=True)
class Run:
    """What `learn` found out."""

    config: Config
    system: AbstractSystem | Linkage | None
    model: Model
    trained: tuple[Trained, ...]

    @property
    def constrained(self) -> bool:
        """Whether only the independent coordinates of a mechanism are learned."""
        return self.model.whole is not None

    def complete(self, motion: Trajectory) -> Trajectory:
        """All coordinates of a motion of the model."""
        return self.model.complete(motion)

    @property
    def members(self) -> list[tuple[Trained, int]]:
        """The start and the seed of every member of the model."""
        return [(part, seed) for part in self.trained for seed in range(len(part.seeds))]

    @property
    def chosen(self) -> tuple[Trained, int]:
        """The start and the seed of the member that predictions use."""
        return self.members[self.model.chosen]


def completed(run: Run, part: Trained, number: int, seed: int) -> Trajectory:
    """One seed's rollout of one recording with its accelerations, and with the dependent coordinates where there are
    constraints: they are solved for at every sample and hold to round-off."""
    truth, field = part.recordings[number].truth, part.seeds[seed].field
    x = part.predictions[seed][number]
    known = isinstance(field, AbstractField) and not truth.columns.first_order
    a = _rates(field, truth.ts, x, truth.u).v if known else None
    return run.complete(Trajectory(truth.ts, x, truth.u, a, columns=truth.columns))


@eqx.filter_jit
def _rates(field, ts, x, u):
    return jax.vmap(field, in_axes=(0, 0, None if u is None else 0))(ts, x, u)


@dataclasses.dataclass(frozen=True)
class Watch:
    """Who is told about progress, and where an interrupted fit is found again; both do nothing by default."""

    report: Callable[[int, Progress], None] = lambda start, progress: None
    note: Callable[[int, str], None] = lambda start, line: None
    resume_from: Callable[[int, Progress], Progress | None] = lambda start, fresh: None


UNWATCHED = Watch()


def learn(
    trajectories,
    *,
    recipe: str | None = None,
    mechanism: str | Path | None = None,
    constraints: Holonomic | Callable | None = None,
    watch: Watch = UNWATCHED,
    **settings,
) -> Model:
    """Learn a model from trajectories; the first part of each is for training, the rest for scoring.

    Trajectories are what `read` gives or takes: files, frames, arrays `(ts, q[, v[, u]])`, a `Trajectory`, or a list of
    such. Further settings are those of the configuration's tables, such as `training={"epochs": 100}`, `seeds=3` or
    `data={"coordinates": ["a", "b"], "split": 0.5}`.

    Coordinates that are bound to each other are learned by independent ones, and all of them foretold: `mechanism` is
    a TOML file whose coordinates have the names of the columns, `constraints` a function of all coordinates, in the
    order of the columns, that is zero (or a vector of zeros) wherever the mechanism can be.
    """
    if mechanism is not None:
        settings = merged(settings, {"data": {"mechanism": str(mechanism)}})
    config = resolved(settings, recipe or default_recipe(settings.get("model", "fnode")), None)
    with jax.enable_x64(True):
        files, linkage = linked(config, read_as(config, trajectories), constraints)
        if linkage is not None and linkage.misfit is not None and linkage.misfit.gross:
            warnings.warn(str(linkage.misfit), stacklevel=2)
        config, files = trusted(config, files)
        return run(config, prepare(config, files, linkage), watch).model


def run(config: Config, prepared: Sequence[Prepared], watch: Watch = UNWATCHED) -> Run:
    """Learn from prepared recordings, one start after the other, all seeds of a start at once; needs 64-bit mode."""
    columns, linkage = prepared[0].recordings[0].truth.columns, prepared[0].linkage
    trained, dt = [], _time_step(prepared[0].recordings)
    for start, part in enumerate(prepared):
        rolled = [_rolled_out(config, part, seed, dt) for seed in train(config, part, start, watch)]
        seeds, starts, predictions = zip(*rolled, strict=True)
        trained.append(
            Trained(start, part.recordings, part.labels, seeds, predictions, starts, part.seconds, part.missing)
        )
    model = _model(config, columns, dt, [seed for part in trained for seed in part.seeds])
    model = dataclasses.replace(
        model, chosen=best_member(model, trained), linkage=linkage, noise=noise_in(config, prepared[0])
    )
    return Run(config, linkage or builtin(config), model, tuple(trained))


def _rolled_out(config: Config, prepared: Prepared, seed: Learned, dt: float):
    """A seed with the steps its rollouts take, where it says that noisy motions begin, and its predictions."""
    began = time.perf_counter()
    seed = dataclasses.replace(seed, substeps=_substeps(config, prepared, seed.field, dt))
    model = _model(config, prepared.recordings[0].truth.columns, dt, [seed])
    model = dataclasses.replace(model, noise=noise_in(config, prepared))
    starts = tuple(begins(model, 0, recording) for recording in prepared.recordings)
    # The truth of a built-in system tells where its motions begin; files do not, where they are noisy.
    predictions = tuple(
        predict_recording(model, 0, recording, begin if config.system is None else None)
        for recording, begin in zip(prepared.recordings, starts, strict=True)
    )
    jax.block_until_ready(predictions)
    return dataclasses.replace(seed, seconds_rollout=time.perf_counter() - began), starts, predictions


def _model(config: Config, columns: Columns, dt: float, seeds: Sequence[Learned]) -> Model:
    fields, networks, substeps = ([getattr(seed, name) for seed in seeds] for name in ("field", "network", "substeps"))
    return Model(tuple(fields), tuple(networks), columns, config, dt, substeps=tuple(substeps))


def _substeps(config: Config, prepared: Prepared, field: AbstractField | AbstractForecaster, dt: float) -> int:
    """How many steps a rollout takes from one sample to the next: as set, or so many that its error does not count
    beside that of the field. The training part alone tells."""
    count = config.rollout.substeps
    if count != "auto":
        return count
    if isinstance(field, AbstractForecaster) or not prepared.labels:
        return 1
    known = training_samples(config, prepared)[0]
    seen = jax.tree.map(lambda leaf: leaf[:: math.ceil(len(known.t) / STATES)], known)
    rates = _rates(field, seen.t, seen.x, seen.u)
    missed = np.asarray(rates.q if prepared.recordings[0].truth.columns.first_order else rates.v) - seen.rate
    own = float(np.sqrt(np.mean(missed**2 / np.maximum(np.var(np.asarray(seen.rate), axis=0), 1e-24))))
    solver, tolerance = solver_named(config.rollout.solver), max(ERROR, SHARE * own)
    return enough_substeps(field, solver, seen.t, seen.x, seen.u, rates, dt, tolerance)


def train(config: Config, prepared: Prepared, start: int, watch: Watch) -> tuple[Learned, ...]:
    """What every seed learns from the labelled training parts of one start, or from a stream."""
    if config.stream.design:
        return follow_stream(config, prepared, start, watch)
    if config.training.optimiser != "least_squares":
        return descend(config, prepared, start, watch)
    return choose_structure(config, prepared, lambda line: watch.note(start, line))


def choose_structure(
    config: Config, prepared: Prepared, report: Callable[[str], None] = lambda line: None
) -> tuple[Learned, ...]:
    """The best structure for the data, by least squares, for every seed: a single one where nothing is random."""
    parts = _parts(config, prepared)
    choices = select(
        parts[0].smooth.columns,
        parts,
        structures=config.training.structures,
        noise=_relative_noise(prepared),
        solver=solver_named(config.rollout.solver),
        keys=[jax.random.key(config.seed + number) for number in range(config.seeds)],
        report=report,
    )
    return tuple(
        Learned(
            chosen.field,
            chosen.verdict.network,
            chosen.history,
            chosen.seconds_compile,
            chosen.seconds_train,
            verdict=chosen.verdict,
            ranking=chosen.ranking,
        )
        for chosen in choices
    )


def descend(config: Config, prepared: Prepared, start: int, watch: Watch) -> tuple[Learned, ...]:
    """Fit all seeds at once by gradient descent."""
    known, samples = training_samples(config, prepared)
    settings, columns = config.training, prepared.recordings[0].truth.columns
    numbers = jnp.arange(config.seeds) + config.seed
    keys = jax.vmap(lambda number: jax.random.split(jax.random.key(number)))(numbers)
    fitted = fit(
        eqx.filter_jit(eqx.filter_vmap(lambda key: untrained(config, config.network, columns, key, known)))(keys[:, 0]),
        method_named(config.model).loss(config),
        cast(samples, settings.precision),
        optimiser_of(settings),
        epochs=settings.epochs,
        batch=batch_size(config, samples),
        keys=keys[:, 1],
        report=lambda progress: watch.report(start, progress),
        resume_from=lambda fresh: watch.resume_from(start, fresh),
    )
    return each_seed(config, fitted)


def follow_stream(config: Config, prepared: Prepared, start: int, watch: Watch) -> tuple[Learned, ...]:
    """Fit all seeds at once to a stream of training data."""
    fitted = fit_streamed(
        config,
        builtin(config),
        prepared.recordings[0].truth.columns,
        report=lambda progress: watch.report(start, progress),
        resume_from=lambda fresh: watch.resume_from(start, fresh),
    )
    return each_seed(config, fitted)


def each_seed(config: Config, fitted: Fit) -> tuple[Learned, ...]:
    """Seeds that trained together: each is charged its share of the training and all of the compilation."""
    share = fitted.seconds_train / config.seeds
    return tuple(
        Learned(one_of(fitted.models, seed), config.network, history, fitted.seconds_compile, share)
        for seed, history in enumerate(fitted.history)
    )


def one_of(stacked: PyTree, number: int) -> PyTree:
    """One model out of several that share their arrays' leading axis."""
    return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, stacked)


def noise_in(config: Config, prepared: Prepared) -> tuple[float, ...]:
    """The noise of every column of the state in the training parts; nothing where they are clean."""
    if _relative_noise(prepared) <= NOISY or prepared.recordings[0].truth.columns.first_order:
        return ()
    noises = [noise_of(part.measured.states, part.smooth.states) for part in _parts(config, prepared)]
    return tuple(np.median(noises, axis=0).tolist())


def _relative_noise(prepared: Prepared) -> float:
    noises = [d.noise_relative or 0.0 for labels in prepared.labels for d in labels.diagnostics]
    return float(np.median(noises)) if noises else 0.0


def _parts(config: Config, prepared: Prepared) -> list[Part]:
    """The training parts with their labels."""
    seen = [recording for recording in prepared.recordings if recording.observed is not None]
    return [part_of(recording, labels, config.labels) for recording, labels in zip(seen, prepared.labels, strict=True)]


def begins(model: Model, number: int, recording: Recording) -> State | None:
    """Where a noisy recording of which a part is for training begins, by a member and that part; else nothing."""
    if recording.split != "train+test" or not model.noise:
        return None
    seen = recording.observed if recording.measured is None else recording.measured
    assert seen is not None
    assert recording.observed is not None
    return model.begins(seen, recording.observed.start, number)


def predict_recording(model: Model, number: int, recording: Recording, begin: State | None = None) -> State:
    """One member's rollout over the whole recording, from its true first sample or as many as it needs; or from where
    it begins."""
    forecaster = model.forecaster(number)
    past = recording.truth[: max(1, forecaster.needs)]
    if begin is not None:
        past = dataclasses.replace(past, x=jax.tree.map(lambda leaf: leaf[None], begin))
    return predict(forecaster, past, recording.truth.ts, recording.control)


def best_member(model: Model, trained: Sequence[Trained]) -> int:
    """The member with the smallest rollout error over windows of its own training part; the test part is not seen."""
    return 0 if model.size == 1 else int(np.argmin(window_errors(model, trained)))


def window_errors(model: Model, trained: Sequence[Trained]) -> list[float]:
    """What members are chosen by; infinite for one that leaves for good, and for all where a stream of files keeps no
    training part to choose by."""
    parts = [part for part in trained for _ in part.seeds]
    errors = []
    for number, part in enumerate(parts):
        least = model.forecaster(number).needs + 1
        stretches = [window for recording in part.recordings for window in _windows(recording, least)]
        error = np.mean([_window_error(model, number, window) for window in stretches]) if stretches else np.inf
        errors.append(float(error) if np.isfinite(error) else np.inf)
    return errors


def _windows(recording: Recording, least: int) -> list[Recording]:
    """The training part cut into equal stretches, each to be predicted from its own first sample."""
    if recording.observed is None:
        return []
    length = max(2, least, len(recording.observed) // WINDOWS)
    starts = range(0, len(recording.observed) - length + 1, length)
    return [dataclasses.replace(recording, truth=recording.observed[k : k + length]) for k in starts]


def _window_error(model: Model, number: int, window: Recording) -> float:
    """Squared error of one member in units of each column's spread."""
    true = window.truth.states
    error = flat(predict_recording(model, number, window)) - true
    return float(jnp.mean(error**2 / jnp.maximum(jnp.var(true, axis=0), 1e-12)))


def _time_step(recorded: Sequence[Recording]) -> float:
    ts = np.asarray(recorded[0].truth.ts)
    return float((ts[-1] - ts[0]) / (len(ts) - 1)) if len(ts) > 1 else 1.0
