"""Training on a stream: block after block, shared by all devices of all processes."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from fnode.errors import InputError
from fnode.models import is_trainable
from fnode.scale.stream import AbstractStream
from fnode.training import Adam, Diverged, Fit, Progress, compiled

LANES = "lanes"  # the axis of the devices, along which a block is cut


class Lost(InputError):
    """Another process of the job is gone; what was kept last is in the last checkpoint."""


@contextlib.contextmanager
def noticing_losses(when: str) -> Iterator[None]:
    """What fails between processes is told as the loss of one of them."""
    try:
        yield
    except jax.errors.JaxRuntimeError:
        if jax.process_count() == 1:
            raise
        raise Lost(
            f"process {jax.process_index()} of {jax.process_count()} lost another one {when}: start all of them again "
            "with --resume"
        ) from None


def fit_stream(
    models: PyTree,
    loss: Callable,
    stream: AbstractStream,
    optimiser: Adam,
    *,
    epochs: int,
    batches: Sequence[int],
    resume_from: Callable[[Progress], Progress | None] = lambda fresh: None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Fit:
    """Minimise the mean of `loss(model, sample)` over an endless stream; the last state is what is kept.

    `models` carries seeds along its leading axis; all of them see the same samples. The blocks of all epochs are
    divided evenly among the sizes in `batches`, in their order. The learning rate decays smoothly, by the optimiser's
    factor per epoch. The loss of each block is kept where `fit` keeps that of an epoch: `Progress.epoch` counts blocks.

    Every device of every process works on its own lanes of each block, and the gradients are averaged over all of
    them: the result does not depend on how many there are, but for the order of sums.
    """
    mesh = Mesh(np.array(jax.devices()), (LANES,))
    replicated, cut = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (LANES,)))
    check_batches(stream, batches, mesh.size)
    trained, rest = eqx.partition(models, is_trainable(models))
    fixed, static = eqx.partition(rest, eqx.is_array)
    transform = optimiser.transform()
    seeds, total = jax.tree.leaves(trained)[0].shape[0], epochs * stream.blocks
    wide = jnp.result_type(float)
    fresh = Progress.fresh(trained, transform, seeds, total)
    with noticing_losses("before the first block"):
        progress, fixed = shared((resume_from(fresh) or fresh, fixed), replicated)
    precision = jax.tree.leaves(trained)[0].dtype

    def mean_loss(trained, fixed, rows):
        model = eqx.combine(trained, fixed, static)
        return jnp.mean(jax.vmap(lambda sample: loss(model, sample))(rows))

    def train(trained, state, fixed, steps, rate):
        def step(carry, rows):
            trained, state = carry
            value, gradient = jax.value_and_grad(mean_loss)(trained, fixed, rows)
            direction, state = transform.update(gradient, state, trained)
            trained = optax.apply_updates(trained, jax.tree.map(lambda d: -rate.astype(d.dtype) * d, direction))
            return (trained, state), value

        (trained, state), values = jax.lax.scan(step, (trained, state), steps)
        return trained, state, jnp.mean(values.astype(wide))

    def advance(batch: int, progress: Progress, fixed, fetched) -> Progress:
        share = batch // stream.lanes
        rows = jax.tree.map(lambda leaf: _steps(leaf.astype(precision), share), stream.labelled(fetched))
        rate = optimiser.rate(progress.epoch / stream.blocks)
        trained, state, losses = jax.vmap(train, in_axes=(0, 0, 0, None, None))(
            progress.trained, progress.optimiser, fixed, rows, rate
        )
        good = jnp.all(jnp.isfinite(losses))
        keep = lambda new, old: jax.tree.map(lambda n, o: jnp.where(good, n, o), new, old)  # noqa: E731
        trained = keep(trained, progress.trained)
        return Progress(
            trained,
            keep(state, progress.optimiser),
            trained,
            jnp.minimum(progress.best_loss, losses),
            progress.epoch + 1,
            jnp.where(jnp.isfinite(losses), progress.failed, progress.epoch),
            progress.history.at[:, progress.epoch].set(losses),
            progress.seconds,
        )

    def fetched(number: int):
        """What this process gives to a block."""
        part = stream.lanes // jax.process_count()
        first = part * jax.process_index()
        return jax.tree.map(
            lambda leaf: jax.make_array_from_process_local_data(cut, leaf, (stream.lanes, *leaf.shape[1:])),
            stream.fetch(number, slice(first, first + part)),
        )

    done, compile_seconds, programs = int(progress.epoch), 0.0, {}
    block = fetched(done) if done < total else None
    while done < total:
        batch = batches[done * len(batches) // total]
        if batch not in programs:
            began = time.perf_counter()
            steps = seeds * total * stream.lanes * stream.rows // batch
            program = compiled(lambda *a, b=batch: advance(b, *a), progress, fixed, block, steps=steps)
            programs = {batch: program}
            compile_seconds += time.perf_counter() - began
        began = time.perf_counter()
        with noticing_losses(f"after {done} of {total} blocks"):
            progress = programs[batch](progress, fixed, block)
            done += 1
            block = fetched(done) if done < total else None  # while the devices are busy
            jax.block_until_ready(progress)
        progress = progress.later(time.perf_counter() - began)
        report(progress)
        if np.any(np.asarray(progress.failed) >= 0):
            seed = int(np.argmax(np.asarray(progress.failed) >= 0))
            raise Diverged(
                f"the loss of seed {seed} stopped being finite in block {int(progress.failed[seed]) + 1}; the last "
                f"good state is kept: lower learning_rate, set clip, or check the data"
            )
    here = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), progress)  # from all devices to this process's own
    return Fit(eqx.combine(here.best, rest), np.asarray(here.history), compile_seconds, float(here.seconds))


def check_batches(stream: AbstractStream, batches: Sequence[int], devices: int) -> None:
    """An error unless every batch takes as many rows from each lane, and every device as many lanes."""
    for batch in batches:
        if batch % stream.lanes or stream.rows % (batch // stream.lanes):
            raise InputError(
                f"got batch={batch} with blocks of {stream.lanes} trajectories and {stream.rows} rows of each: a batch "
                f"is {stream.lanes} times a number that divides {stream.rows}"
            )
    if stream.lanes % devices:
        raise InputError(f"got {devices} devices for blocks of {stream.lanes} trajectories: choose a multiple")


def shared(tree: PyTree, replicated: NamedSharding) -> PyTree:
    """The same arrays on every device: those of the first process."""
    if jax.process_count() > 1:
        tree = multihost_utils.broadcast_one_to_all(tree)
    return jax.tree.map(
        lambda leaf: jax.make_array_from_callback(leaf.shape, replicated, np.asarray(leaf).__getitem__), tree
    )


def _steps(leaf, share: int):
    """Rows of lanes as rows of steps: each step takes `share` rows, spread over time, from every lane."""
    lanes, rows, *rest = leaf.shape
    ordered = jnp.moveaxis(leaf.reshape(lanes, share, rows // share, *rest), 2, 0)
    return ordered.reshape(rows // share, lanes * share, *rest)
