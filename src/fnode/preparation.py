"""From a configuration to recordings with labels: everything that comes before training."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fnode.config import Config, merged, validated
from fnode.config import Labels as LabelSettings
from fnode.constraints import Holonomic
from fnode.derivatives import (
    Agreement,
    Estimate,
    Labels,
    agreement,
    derivative_named,
    estimated,
    label_of,
    positions_only,
)
from fnode.errors import InputError
from fnode.io import Trajectories, read, roles_given
from fnode.mechanisms import Linkage, link, link_mechanism, read_mechanism, reduced
from fnode.methods import check_method, method_named
from fnode.model import builtin, sampled_control
from fnode.recipes import recipe_values
from fnode.recording import Recording
from fnode.selection import Part
from fnode.solvers import solver_named
from fnode.streaming import stream_of
from fnode.systems import AbstractSystem, recordings
from fnode.training import Labelled, check_batch
from fnode.trajectory import State, Trajectory

LOOKED_AT, LOOKED_AT_SAMPLES = 4, 2000  # training parts, and samples of each, that tell whether velocities are sound


@dataclasses.dataclass(frozen=True)
class Prepared:
    """The recordings of one start, the labels of those that have a training part, and how long both took."""

    recordings: tuple[Recording, ...]
    labels: tuple[Labels, ...]
    seconds: float
    missing: int = 0  # samples of training parts that were incomplete
    linkage: Linkage | None = None  # of files whose coordinates are bound by constraints


def resolved(config: dict, recipe: str, system: str | None) -> Config:
    """The configuration after the recipe has filled in what was left open; every name in it is checked."""
    model = config.get("model", "fnode")
    method_named(model)
    complete = validated(merged(recipe_values(recipe, system, model), config, {"recipe": recipe}))
    solver_named(complete.rollout.solver)
    derivative_named(complete.labels.labels)
    if complete.data.mechanism and (complete.system or complete.stream.design):
        raise InputError(
            f"got mechanism={complete.data.mechanism} for {complete.system or 'a stream'}: a mechanism is for files "
            "that are learned as a whole"
        )
    return complete


def read_as(config: Config, source) -> Trajectories:
    """The trajectories of files or other sources, with the roles and the cleaning that a configuration asks for."""
    path = config.data.mechanism
    known = read_mechanism(path).columns.coordinates if path else ()
    return read(source, gaps=config.data.gaps, known=known, **roles_given(config.data.roles))


def linked(
    config: Config, files: Trajectories, constraints: Holonomic | Callable | None = None
) -> tuple[Trajectories, Linkage | None]:
    """Files by their independent coordinates alone, and how all others follow from those, where a mechanism or
    constraints `phi(q) = 0` on the coordinates of the files are given. The training parts alone decide which."""
    path = config.data.mechanism
    if path and constraints is not None:
        raise InputError("got both a mechanism and constraints: give one of them")
    if not path and constraints is None:
        return files, None
    columns = next(iter(files.values())).columns
    seen = [part for recording in split(files, config.data.split) if (part := recording.observed) is not None]
    q = np.concatenate([np.asarray(each.x.q) for each in seen or files.values()])
    if path:
        try:
            linkage = link_mechanism(Path(path).read_text(encoding="utf-8"), columns, q)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    else:
        assert constraints is not None
        linkage = link(Holonomic.of(constraints), columns, q)
    independent = {name: reduced(each, linkage.columns.coordinates) for name, each in files.items()}
    return Trajectories(independent, roles=files.roles, training=files.training, notes=files.notes), linkage


def trusted(config: Config, files: Trajectories) -> tuple[Config, Trajectories]:
    """Files without those velocities that are not the slopes of their positions, and the configuration that says so.

    Velocities that the user named are kept, and so are those that labels of the paper's kind are made of.
    """
    long = min(len(each) for each in files.values()) >= derivative_named("auto").minimum
    if config.data.velocities is not None or config.labels.labels != "auto" or not long:
        return config, files
    columns = next(iter(files.values())).columns
    for i, (place, speed) in enumerate(zip(columns.coordinates, columns.velocities, strict=False)):
        found = _agreements(split(files, config.data.split), i)
        if found and np.median([each.doubtful for each in found]) > 0.5:
            off, delay = (float(np.median([getattr(each, name) for each in found])) for name in ("share", "delay"))
            note = (
                f"velocities left aside: {speed.name} is not the slope of {place.name}, but off by {off:.1%} of its "
                f"spread and {1e3 * delay:.1f} ms late; to use it all the same, name the columns in --set velocities="
            )
            data = config.data.model_copy(update={"velocities": ()})
            return config.model_copy(update={"data": data}), files.without_velocities(note)
    return config, files


def _agreements(recorded: Sequence[Recording], i: int) -> list[Agreement]:
    """How a coordinate and its velocity go together in some of the training parts."""
    parts = [part for recording in recorded if (part := recording.observed) is not None and not positions_only(part)]
    found = []
    for part in parts[:: max(1, len(parts) // LOOKED_AT)]:
        looked = part[:LOOKED_AT_SAMPLES]
        ts, q, v = (np.asarray(values) for values in (looked.ts, looked.x.q[:, i], looked.x.v[:, i]))
        angle = part.columns.coordinates[i].angle
        found.append(agreement(ts, q, v, angle=angle))
    return [each for each in found if each is not None]


def prepare(
    config: Config, files: dict[str, Trajectory] | None = None, linkage: Linkage | None = None
) -> list[Prepared]:
    """The recordings of every start, found fit for training; whatever is wrong with them is said here."""
    if config.system:
        system = builtin(config)
        assert system is not None
        roles = [name for name in roles_given(config.data.roles) if name != "split"]
        if roles:
            raise InputError(f"got data.{roles[0]} for the built-in system {config.system}: roles are for files")
        sources = [functools.partial(system_recordings, system, config, start) for start in range(config.starts)]
    elif files and config.starts == 1 and config.stream.design:
        sources = [lambda: tuple(Recording(name, part, None, sampled_control(part)) for name, part in files.items())]
    elif files and config.starts == 1:
        sources = [functools.partial(split, files, config.data.split)]
    else:
        raise InputError("starts can be moved only for a built-in system" if files else "got no trajectories")
    prepared = []
    for source in sources:
        began = time.perf_counter()
        recorded = source()
        labels = () if config.stream.design else _labels(recorded, config.labels.labels)
        missing = sum(_incomplete(recording.observed) for recording in recorded if recording.observed is not None)
        recorded = known(recorded, labels)
        if linkage is not None:
            for recording in recorded:
                linkage.complete(recording.truth)  # a pose that cannot be is said before training
        prepared.append(Prepared(recorded, labels, time.perf_counter() - began, missing, linkage))
    check_method(config, prepared[0].recordings[0].truth.columns, builtin(config))
    if config.stream.design:
        stream_of(config, builtin(config))
        return prepared
    for recorded in prepared:
        batch_size(config, training_samples(config, recorded)[1])
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


def training_samples(config: Config, prepared: Prepared) -> tuple[Labelled, PyTree]:
    """The labelled samples, and what the model is trained on."""
    known = labelled(prepared.recordings, prepared.labels, config.labels)
    return known, method_named(config.model).samples(config, prepared.recordings, known)


def batch_size(config: Config, samples: PyTree) -> int:
    """The size of a batch, found to fit the samples."""
    count = jax.tree.leaves(samples)[0].shape[0]
    batch = count if config.training.batch == "all" else config.training.batch
    if not isinstance(batch, int):
        raise InputError(f"got batches of {', '.join(map(str, batch))}: only a stream takes several sizes (set design)")
    check_batch(batch, count)
    return batch


def _labels(recorded: Sequence[Recording], method: str) -> tuple[Labels, ...]:
    found = tuple(label_of(recording.observed, method) for recording in recorded if recording.observed is not None)
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


def _incomplete(trajectory: Trajectory) -> int:
    """How many samples lack a coordinate or a velocity that was measured elsewhere."""
    states = trajectory.x.q if positions_only(trajectory) else trajectory.states
    return int(np.isnan(np.asarray(states)).any(axis=1).sum())


def known(recorded: Sequence[Recording], labels: Sequence[Labels]) -> tuple[Recording, ...]:
    """The recordings with every state known; the training part is estimated from itself alone."""
    made, rest = [], iter(labels)
    for recording in recorded:
        observed = None if recording.observed is None else estimated(recording.observed, next(rest, None))
        given = (np.asarray(each.x.q) for each in (recording.observed, recording.truth) if each is not None)
        same = observed is not None and np.array_equal(*given, equal_nan=True)  # spares drawing the curves again
        truth = observed if same else estimated(recording.truth)
        made.append(dataclasses.replace(recording, truth=truth, observed=observed, measured=recording.observed))
    return tuple(made)


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
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[known]), samples)


def part_of(recording: Recording, labels: Labels, settings: LabelSettings) -> Part:
    """One training trajectory as the search for a structure sees it."""
    observed = recording.observed
    assert observed is not None
    q, v = (
        found.value if found is not None else given
        for found, given in ((labels.q, observed.x.q), (labels.v, observed.x.v))
    )
    smooth = dataclasses.replace(observed, x=State(jnp.asarray(q), jnp.asarray(v)))
    measured = observed if recording.measured is None else recording.measured
    return Part(measured, smooth, recording.control, _samples(observed, labels, settings))
