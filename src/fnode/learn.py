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

from fnode.config import Config, Network, merged, validated
from fnode.config import Labels as LabelSettings
from fnode.derivatives import Estimate, Labels, derivative_named, estimated, label_of
from fnode.errors import InputError
from fnode.field import AbstractField
from fnode.io import Trajectories, read, roles_given
from fnode.methods import check_method, method_named
from fnode.metrics import flat
from fnode.model import Model, cast, predict, sampled_control, untrained
from fnode.models import AbstractForecaster
from fnode.recipes import default_recipe, recipe_values
from fnode.recording import Recording
from fnode.selection import Part, Verdict, select
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


def resolved(config: dict, recipe: str, system: str | None) -> Config:
    """The configuration after the recipe has filled in what was left open; every name in it is checked."""
    model = config.get("model", "fnode")
    method_named(model)
    complete = validated(merged(recipe_values(recipe, system, model), config, {"recipe": recipe}))
    solver_named(complete.rollout.solver)
    derivative_named(complete.labels.labels)
    return complete


def learn(trajectories, *, recipe: str | None = None, watch: Watch = UNWATCHED, **settings) -> Model:
    """Learn a model from trajectories; the first part of each is for training, the rest for scoring.

    Trajectories are what `read` gives or takes: files, frames, arrays `(ts, q[, v[, u]])`, a `Trajectory`, or a list of
    such. Further settings are those of the configuration's tables, such as `training={"epochs": 100}`, `seeds=3` or
    `data={"coordinates": ["a", "b"], "split": 0.5}`.
    """
    config = resolved(settings, recipe or default_recipe(settings.get("model", "fnode")), None)
    with jax.enable_x64(True):
        return run(config, prepare(config, read_as(config, trajectories)), watch).model


def read_as(config: Config, source) -> Trajectories:
    """The trajectories of files or other sources, with the roles and the cleaning that a configuration asks for."""
    return read(source, gaps=config.data.gaps, **roles_given(config.data.roles))


def prepare(config: Config, files: dict[str, Trajectory] | None = None) -> list[Prepared]:
    """The recordings of every start, found fit for training; whatever is wrong with them is said here."""
    if config.system:
        system = configured(system_named(config.system), config.parameters)
        roles = [name for name in roles_given(config.data.roles) if name != "split"]
        if roles:
            raise InputError(f"got data.{roles[0]} for the built-in system {config.system}: roles are for files")
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
        recorded = known(recorded, labels)
        prepared.append(Prepared(recorded, labels, time.perf_counter() - began))
    builtin = configured(system_named(config.system), config.parameters) if config.system else None
    check_method(config, prepared[0].recordings[0].truth.columns, builtin)
    for recorded in prepared:
        _batch(config, _training_samples(config, recorded)[1])
    return prepared


def exactly_labelled(prepared: Prepared) -> Prepared:
    """The same recordings with the accelerations of the system's own equations as labels: what differentiation can at
    best attain. Only clean data of built-in systems know them."""
    observed = [recording.observed for recording in prepared.recordings if recording.observed is not None]
    exact = []
    for part, labels in zip(observed, prepared.labels, strict=True):
        if part.a is None:
            raise InputError("exact labels need clean data of a built-in system: leave out the noise")
        value = np.asarray(part.a)
        exact.append(
            dataclasses.replace(labels, rate=Estimate(value, None, np.full(value.shape, True)), q=None, v=None)
        )
    return dataclasses.replace(prepared, labels=tuple(exact))


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


def split(
    files: dict[str, Trajectory], how: float | str | Sequence[str] | None = None, share: float = 0.75
) -> tuple[Recording, ...]:
    """Measured trajectories as recordings: a first part of each is for training, or all of it, or nothing.

    `how` is the share of each that is for training, or names the trajectories held out, or the column that tells; by
    default the files' own split is kept, and without one a `share` of each is for training.
    """
    marked = files.training if isinstance(files, Trajectories) else None
    if isinstance(how, str) and marked is None:
        raise InputError(f"got split = '{how}', a column, but the trajectories came without it: give it to `read`")
    if not isinstance(how, (str, float, int, type(None))):
        held = {name for name in files if name in how or name.partition("#")[0] in how}
        unknown = [name for name in how if name not in {*files, *(name.partition("#")[0] for name in files)}]
        if unknown:
            raise InputError(f"no trajectory '{unknown[0]}' to hold out: choose among {', '.join(files)}")
        marked = {name: 0 if name in held else len(trajectory) for name, trajectory in files.items()}
    elif isinstance(how, (float, int)) or marked is None:
        part = share if how is None else float(how)  # pyright: ignore
        marked = {name: max(1, round(part * len(trajectory))) for name, trajectory in files.items()}
    made = []
    for name, trajectory in files.items():
        observed = measured_part(trajectory[: marked[name]]) if marked[name] else None
        made.append(Recording(name, trajectory, observed, sampled_control(trajectory)))
    return tuple(made)


def measured_part(trajectory: Trajectory) -> Trajectory:
    """The trajectory up to its last sample whose coordinates were measured: beyond, nothing can be estimated."""
    there = np.flatnonzero(np.isfinite(np.asarray(trajectory.x.q)).all(axis=1))
    return trajectory if len(there) == 0 or there[-1] + 1 == len(trajectory) else trajectory[: there[-1] + 1]


def known(recorded: Sequence[Recording], labels: Sequence[Labels]) -> tuple[Recording, ...]:
    """The recordings with every state known; the training part is estimated from itself alone."""
    made, rest = [], iter(labels)
    for recording in recorded:
        observed = None if recording.observed is None else estimated(recording.observed, next(rest))
        made.append(dataclasses.replace(recording, truth=estimated(recording.truth), observed=observed))
    return tuple(made)


def label(observed: Trajectory, method: str) -> Labels:
    """The rates that differentiation gives the training part of one trajectory: nothing beyond it is seen."""
    return label_of(observed, method)


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
    """What every seed learns from the labelled training parts of one start."""
    if config.training.optimiser != "least_squares":
        return descend(config, prepared, start, watch)
    found = []
    for number in range(config.seeds):
        found.append(choose_structure(config, prepared, config.seed + number, lambda line: watch.note(start, line)))
        if found[0].deterministic:
            break  # further seeds would come to the same
    return tuple(found)


def choose_structure(
    config: Config, prepared: Prepared, seed: int, report: Callable[[str], None] = lambda line: None
) -> Learned:
    """The best structure for the data, by least squares."""
    observed = [recording for recording in prepared.recordings if recording.observed is not None]
    parts = [_part(recording, labels, config) for recording, labels in zip(observed, prepared.labels, strict=True)]
    noises = [d.noise_relative or 0.0 for labels in prepared.labels for d in labels.diagnostics]
    chosen = select(
        parts[0].smooth.columns,
        parts,
        structures=config.training.structures,
        noise=float(np.median(noises)),
        solver=solver_named(config.rollout.solver),
        key=jax.random.key(seed),
        report=report,
    )
    return Learned(
        chosen.field,
        chosen.network,
        chosen.history,
        chosen.seconds_compile,
        chosen.seconds_train - chosen.seconds_compile,
        chosen.ranking,
    )


def _part(recording: Recording, labels: Labels, config: Config) -> Part:
    observed = recording.observed
    assert observed is not None
    q, v = (
        found.value if found is not None else given
        for found, given in ((labels.q, observed.x.q), (labels.v, observed.x.v))
    )
    smooth = dataclasses.replace(observed, x=State(jnp.asarray(q), jnp.asarray(v)))
    return Part(observed, smooth, recording.control, _samples(observed, labels, config.labels))


def descend(config: Config, prepared: Prepared, start: int, watch: Watch) -> tuple[Learned, ...]:
    """Fit all seeds at once by gradient descent."""
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
