"""From a configuration to a stream of training data, and to models trained on it."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fnode.config import Config
from fnode.derivatives import Difference, derivative_named
from fnode.errors import InputError, choose
from fnode.model import untrained
from fnode.scale import DESIGNS, AbstractStream, SimulatedStream, fit_stream
from fnode.solvers import AbstractFixedStep, solver_named
from fnode.systems import AbstractFirstOrder, AbstractSystem
from fnode.systems.simulate import lengths
from fnode.training import Adam, Fit, Huber, Labelled, Progress, RateLoss, SquaredError
from fnode.trajectory import Columns

FIRST_LOOK = 8  # blocks that set scalers and polynomials


def stream_of(config: Config, system: AbstractSystem | None) -> AbstractStream:
    """The stream that a configuration describes."""
    if config.model != "fnode":
        raise InputError(f"got design={config.stream.design} for {config.model}: only fnode learns from a stream")
    if not isinstance(system, AbstractFirstOrder):
        raise InputError(
            f"got design={config.stream.design} for {config.system}: streams are simulated for systems of first order "
            "such as vehicle"
        )
    if config.starts > 1 or config.data.noise:
        raise InputError("a stream is simulated from one start and without noise: leave out --starts and --noise")
    return _simulated(config, system)


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
        RateLoss(SquaredError() if settings.loss == "mse" else Huber(settings.huber_delta)),
        stream,
        Adam(
            learning_rate=settings.learning_rate,
            decay=settings.decay,
            weight_decay=settings.weight_decay,
            decoupled=settings.optimiser == "adamw",
            clip=settings.clip,
        ),
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
