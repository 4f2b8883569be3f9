"""From a configuration to a stream of training data, and to models trained on it."""

from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fnode.config import Config
from fnode.derivatives import Difference, derivative_named
from fnode.errors import InputError, choose
from fnode.io import read, roles_given
from fnode.methods import optimiser_of, penalty_of
from fnode.model import untrained
from fnode.scale import DESIGNS, AbstractStream, ShardStream, SimulatedStream, fit_stream
from fnode.solvers import AbstractFixedStep, solver_named
from fnode.systems import AbstractFirstOrder, AbstractSystem
from fnode.systems.simulate import lengths
from fnode.training import DerivativeLoss, Fit, Labelled, Progress, RateLoss
from fnode.trajectory import Columns

FIRST_LOOK = 8  # blocks that set scalers and polynomials


def stream_of(config: Config, system: AbstractSystem | None) -> AbstractStream:
    """The stream that a configuration describes."""
    settings = config.stream
    if config.model != "fnode":
        raise InputError(f"got design={settings.design} for {config.model}: only fnode learns from a stream")
    if config.training.optimiser == "least_squares":
        raise InputError("got optimiser=least_squares for a stream: set optimiser=adam, or choose --recipe paper")
    if settings.design == "files":
        return _shards(config)
    if not isinstance(system, AbstractFirstOrder):
        raise InputError(
            f"got design={settings.design} for {config.system or 'files'}: streams are simulated for systems of first "
            "order such as vehicle; files need design=files"
        )
    if config.starts > 1 or config.data.noise:
        raise InputError("a stream is simulated from one start and without noise: leave out --starts and --noise")
    return _simulated(config, system)


def held_out(config: Config) -> tuple[str, ...]:
    """The files that are read as a whole: all, or of a stream those that are for scoring alone."""
    return config.files if config.stream.design is None else config.files[-config.stream.held_out :]


def _shards(config: Config) -> ShardStream:
    """The files of a configuration as a stream, but for those held out."""
    if config.system:
        raise InputError(f"got design=files for the built-in system {config.system}: choose grid, random or sobol")
    settings = config.stream
    if settings.rows == "all":
        raise InputError("got rows=all for a stream of files: give the number of samples, block x rows of each file")
    return ShardStream(
        tuple(Path(file) for file in config.files[: -settings.held_out]),
        lambda file: read(file, gaps=config.data.gaps, **roles_given(config.data.roles)),
        config.labels.labels,
        lanes=settings.block,
        rows=settings.rows,
        seed=config.seed,
    )


def _simulated(config: Config, system: AbstractFirstOrder) -> SimulatedStream:
    settings, data = config.stream, config.data
    ranges = dict(system.ranges)
    for name, between in settings.ranges.items():
        ranges[choose("parameter", name, ranges)] = between
    assert settings.design is not None
    size = {"levels": settings.levels} if settings.design == "grid" else {"trajectories": settings.count}
    design = DESIGNS[settings.design](ranges, seed=config.seed, **size)
    samples = lengths(system.protocol.train, system.protocol.test, data.steps, data.train)[1]
    solver = solver_named(data.data_solver or system.data_solver or "rk4")
    if not isinstance(solver, AbstractFixedStep):
        raise InputError(f"got data_solver={data.data_solver} for a stream: choose rk4, midpoint or euler")
    return SimulatedStream(
        system,
        design,
        (data.dt or system.protocol.dt) * np.arange(samples),
        lanes=settings.block,
        rows=samples if settings.rows == "all" else settings.rows,
        method=None if settings.exact_labels else _differences(config.labels.labels),
        solver=solver,
        seed=config.seed,
    )


def _differences(name: str) -> Difference:
    method = derivative_named(name)
    if not isinstance(method, Difference):
        raise InputError(f"got labels={name} for a stream: choose difference, difference3 or difference5")
    return method


def fit_streamed(
    config: Config,
    system: AbstractSystem | None,
    columns: Columns,
    report: Callable[[Progress], None],
    resume_from: Callable[[Progress], Progress | None],
) -> Fit:
    """Train all seeds of a configuration on its stream."""
    stream, settings = stream_of(config, system), config.training
    keys = jax.vmap(jax.random.key)(jnp.arange(config.seeds) + config.seed)
    known = first_look(stream)
    made = eqx.filter_vmap(
        lambda key, known: untrained(config, config.network, columns, key, known), in_axes=(eqx.if_array(0), None)
    )
    models: PyTree = eqx.filter_jit(made)(keys, known)
    if settings.batch == "all":
        batches: tuple[int, ...] = (stream.lanes * stream.rows,)
    else:
        batches = (settings.batch,) if isinstance(settings.batch, int) else settings.batch
    return fit_stream(
        models,
        (RateLoss if columns.first_order else DerivativeLoss)(penalty_of(settings)),
        stream,
        optimiser_of(settings),
        epochs=settings.epochs,
        batches=batches,
        report=report,
        resume_from=resume_from,
    )


def first_look(stream: AbstractStream) -> Labelled:
    """As many samples as a block has, thinned out of several blocks: more trajectories, fewer samples of each."""
    number = min(FIRST_LOOK, stream.blocks)
    parts = [stream.whole(k) for k in range(number)]
    return jax.tree.map(lambda *leaves: jnp.concatenate([leaf[k::number] for k, leaf in enumerate(leaves)]), *parts)
