"""The whole way from trajectories to scored models."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fnode import derivatives
from fnode.config import Config, Network, merged, validated
from fnode.config import Labels as LabelSettings
from fnode.derivatives import Labels, derivative_named
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.methods import check_method, method_named
from fnode.metrics import flat
from fnode.model import Model, cast, predict, sampled_control, untrained
from fnode.models import AbstractForecaster
from fnode.recipes import recipe_values
from fnode.recording import Recording
from fnode.solvers import solver_named
from fnode.systems import AbstractSystem, configured, recordings, system_named
from fnode.training import Adam, Labelled, Progress, check_batch, fit
from fnode.trajectory import Columns, State, Trajectory

WINDOWS = 4  # stretches of each training part whose rollouts choose among seeds


@dataclasses.dataclass(frozen=True)
class Prepared:
    """The recordings of one start, the labels of those that have a training part, and how long both took."""

    recordings: tuple[Recording, ...]
    labels: tuple[Labels, ...]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Learned:
    """What one seed came to: its field or forecaster, the loss on the way, and how long that took."""

    field: AbstractField | AbstractForecaster
    network: Network
    history: np.ndarray
    seconds_compile: float
    seconds_train: float


@dataclasses.dataclass(frozen=True)
class Trained:
    """All seeds learned from one start: the recordings, what each seed came to, and its rollout of every recording."""

    start: int
    recordings: tuple[Recording, ...]
    labels: tuple[Labels, ...]
    seeds: tuple[Learned, ...]
    predictions: tuple[tuple[State, ...], ...]  # per seed and recording
    seconds_other: float  # data, labels and rollouts of all seeds


@dataclasses.dataclass(frozen=True)
class Run:
    """What `learn` found out."""

    config: Config
    system: AbstractSystem | None
    model: Model
    trained: tuple[Trained, ...]

    @property
    def constrained(self) -> bool:
        """Whether only the independent coordinates of a mechanism are learned."""
        return (
            self.system is not None
            and self.system.constraints is not None
            and self.model.columns == self.system.columns
        )

    def complete(self, motion: Trajectory) -> Trajectory:
        """All coordinates of a motion of the model."""
        return self.system.complete(motion) if self.system is not None and self.constrained else motion

    @property
    def chosen(self) -> tuple[Trained, int]:
        """The start and the seed of the member that predictions use."""
        start, seed = divmod(self.model.chosen, self.config.seeds)
        return self.trained[start], seed


def completed(run: Run, part: Trained, number: int, seed: int) -> Trajectory:
    """One seed's rollout of one recording with its accelerations, and with the dependent coordinates where there are
    constraints: they are solved for at every sample and hold to round-off."""
    truth, field = part.recordings[number].truth, run.model.members[part.start * run.config.seeds + seed]
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
    resume_from: Callable[[int, Progress], Progress | None] = lambda start, fresh: None


UNWATCHED = Watch()


def resolved(config: dict, recipe: str, system: str | None) -> Config:
    """The configuration after the recipe has filled in what was left open; every name in it is checked."""
    model = config.get("model", "fnode")
    method_named(model)
    complete = validated(merged(recipe_values(recipe, system, model), config, {"recipe": recipe}))
    solver_named(complete.rollout.solver)
    derivative_named(complete.labels.labels)
    return complete


def learn(
    trajectories: Trajectory | Sequence[Trajectory], *, recipe: str = "paper", watch: Watch = UNWATCHED, **settings
) -> Model:
    """Learn a model from trajectories; the first part of each is for training, the rest for scoring.

    Further settings are those of the configuration's tables, such as `training={"epochs": 100}` or `seeds=3`.
    """
    config = resolved(settings, recipe, None)
    given = [trajectories] if isinstance(trajectories, Trajectory) else list(trajectories)
    with jax.enable_x64(True):
        files = {str(number): trajectory.checked() for number, trajectory in enumerate(given)}
        return run(config, prepare(config, files), watch).model


def prepare(config: Config, files: dict[str, Trajectory] | None = None) -> list[Prepared]:
    """The recordings of every start, found fit for training; whatever is wrong with them is said here."""
    if config.system:
        system = configured(system_named(config.system), config.parameters)
        sources = [functools.partial(system_recordings, system, config, start) for start in range(config.starts)]
    elif files and config.starts == 1:
        sources = [functools.partial(split, files, config.data.split)]
    else:
        raise InputError("starts can be moved only for a built-in system" if files else "got no trajectories")
    prepared = []
    for source in sources:
        began = time.perf_counter()
        recorded = source()
        labels = _labels(recorded, config.labels.labels)
        prepared.append(Prepared(recorded, labels, time.perf_counter() - began))
    known = configured(system_named(config.system), config.parameters) if config.system else None
    check_method(config, prepared[0].recordings[0].truth.columns, known)
    for recorded in prepared:
        _batch(config, _training_samples(config, recorded)[1])
    return prepared


def _training_samples(config: Config, prepared: Prepared) -> tuple[Labelled, PyTree]:
    """The labelled samples, and what the model is trained on."""
    known = labelled(prepared.recordings, prepared.labels, config.labels)
    return known, method_named(config.model).samples(config, prepared.recordings, known)


def _batch(config: Config, samples: PyTree) -> int:
    """The size of a batch, found to fit the samples."""
    count = jax.tree.leaves(samples)[0].shape[0]
    batch = count if config.training.batch == "all" else config.training.batch
    check_batch(batch, count)
    return batch


def run(config: Config, prepared: Sequence[Prepared], watch: Watch = UNWATCHED) -> Run:
    """Learn from prepared recordings, one start after the other, all seeds of a start at once; needs 64-bit mode."""
    columns = prepared[0].recordings[0].truth.columns
    trained, dt = [], _time_step(prepared[0].recordings)
    for start, part in enumerate(prepared):
        seeds = train(config, part, start, watch)
        began = time.perf_counter()
        model = _model(config, columns, dt, seeds)
        predictions = tuple(
            tuple(predict_recording(model, number, recording) for recording in part.recordings)
            for number in range(model.size)
        )
        jax.block_until_ready(predictions)
        seconds = part.seconds + time.perf_counter() - began
        trained.append(Trained(start, part.recordings, part.labels, seeds, predictions, seconds))
    model = _model(config, columns, dt, [seed for part in trained for seed in part.seeds])
    system = configured(system_named(config.system), config.parameters) if config.system else None
    return Run(config, system, dataclasses.replace(model, chosen=best_member(model, trained)), tuple(trained))


def _model(config: Config, columns: Columns, dt: float, seeds: Sequence[Learned]) -> Model:
    return Model(tuple(seed.field for seed in seeds), tuple(seed.network for seed in seeds), columns, config, dt)


def _labels(recorded: Sequence[Recording], method: str) -> tuple[Labels, ...]:
    found = tuple(label(recording.observed, method) for recording in recorded if recording.observed is not None)
    if not found:
        raise InputError("no recording has a training part: nothing to learn from")
    return found


def system_recordings(system: AbstractSystem, config: Config, start: int = 0) -> tuple[Recording, ...]:
    """The recordings of a built-in system that a configuration describes."""
    data = config.data
    return recordings(
        system,
        start=config.start,
        steps=data.steps,
        train=data.train,
        dt=data.dt,
        data_solver=data.data_solver,
        noise=data.noise,
        full=data.coordinates == "full",
        key=jax.random.key(config.seed),
        moved=start,
    )


def split(files: dict[str, Trajectory], fraction: float) -> tuple[Recording, ...]:
    """Measured trajectories as recordings: the first part of each is for training."""
    made = []
    for name, trajectory in files.items():
        training = max(1, round(fraction * len(trajectory)))
        made.append(Recording(name, trajectory, trajectory[:training], sampled_control(trajectory)))
    return tuple(made)


def label(observed: Trajectory, method: str) -> Labels:
    """The rates that differentiation gives the training part of one trajectory: nothing beyond it is seen."""
    columns = observed.columns
    return derivatives.label(
        np.asarray(observed.ts),
        np.asarray(observed.x.q),
        None if columns.first_order else np.asarray(observed.x.v),
        method,
        angles=[column.angle for column in columns.coordinates],
        first_order=columns.first_order,
    )


def labelled(recorded: Sequence[Recording], labels: Sequence[Labels], settings: LabelSettings) -> Labelled:
    """The samples of all training parts that have labels, each part labelled on its own."""
    observed = [recording.observed for recording in recorded if recording.observed is not None]
    parts = [_samples(part, found, settings) for part, found in zip(observed, labels, strict=True)]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _samples(observed: Trajectory, labels: Labels, settings: LabelSettings) -> Labelled:
    known = labels.rate.known.all(axis=1)
    x = observed.x
    if settings.denoise:
        q, v = (given if found is None else found.value for given, found in ((x.q, labels.q), (x.v, labels.v)))
        x = State(jnp.asarray(q), jnp.asarray(v))
    weight = None
    if settings.weighted and labels.rate.sd is not None:
        # A label cannot count more than a hundred times the typical one: its deviation is itself an estimate.
        least = np.maximum(0.1 * np.median(labels.rate.sd[known], axis=0), 1e-100)  # a channel may stand still
        precise = 1 / np.maximum(labels.rate.sd, least) ** 2
        weight = jnp.asarray(precise / precise[known].mean(axis=0))
    samples = Labelled(observed.ts, x, observed.u, jnp.asarray(labels.rate.value), weight)
    return jax.tree.map(lambda leaf: leaf[known], samples)


def train(config: Config, prepared: Prepared, start: int, watch: Watch) -> tuple[Learned, ...]:
    """Fit all seeds at once to the labelled training parts."""
    known, samples = _training_samples(config, prepared)
    settings, columns = config.training, prepared.recordings[0].truth.columns
    numbers = jnp.arange(config.seeds) + config.seed
    keys = jax.vmap(lambda number: jax.random.split(jax.random.key(number)))(numbers)
    fitted = fit(
        eqx.filter_jit(eqx.filter_vmap(lambda key: untrained(config, config.network, columns, key, known)))(keys[:, 0]),
        method_named(config.model).loss(config),
        cast(samples, settings.precision),
        Adam(
            learning_rate=settings.learning_rate,
            decay=settings.decay,
            weight_decay=settings.weight_decay,
            decoupled=settings.optimiser == "adamw",
            clip=settings.clip,
        ),
        epochs=settings.epochs,
        batch=_batch(config, samples),
        keys=keys[:, 1],
        report=lambda progress: watch.report(start, progress),
        resume_from=lambda fresh: watch.resume_from(start, fresh),
    )
    # Seeds train together: each is charged its share of the training and all of the compilation.
    share = fitted.seconds_train / config.seeds
    return tuple(
        Learned(one_of(fitted.models, seed), config.network, history, fitted.seconds_compile, share)
        for seed, history in enumerate(fitted.history)
    )


def one_of(stacked: PyTree, number: int) -> PyTree:
    """One model out of several that share their arrays' leading axis."""
    return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, stacked)


def predict_recording(model: Model, number: int, recording: Recording) -> State:
    """One member's rollout over the whole recording, from its true first sample or as many as it needs."""
    forecaster = model.forecaster(number)
    return predict(forecaster, recording.truth[: max(1, forecaster.needs)], recording.truth.ts, recording.control)


def best_member(model: Model, trained: Sequence[Trained]) -> int:
    """The member with the smallest rollout error over windows of its own training part; the test part is not seen."""
    if model.size == 1:
        return 0
    parts = [part for part in trained for _ in part.seeds]
    errors = []
    for number, part in enumerate(parts):
        least = model.forecaster(number).needs + 1
        stretches = [window for recording in part.recordings for window in _windows(recording, least)]
        errors.append(np.mean([_window_error(model, number, window) for window in stretches]))
    return int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))


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
