"""Training of any model on any loss: whole epochs run inside one compiled loop, several seeds at once."""

import dataclasses
import math
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from fnode.errors import InputError
from fnode.models import is_trainable
from fnode.training.adam import Adam
from fnode.training.compilation import compiled

CHUNK_SECONDS = 1.0  # how long the compiled loop runs before progress, checkpoints and Ctrl-C get their turn


class Progress(eqx.Module):
    """Where training stands: all that is needed to go on from here bit for bit. Leading axis: seeds."""

    trained: PyTree
    optimiser: PyTree
    best: PyTree
    best_loss: Float[Array, " seeds"]
    epoch: Int[Array, ""]
    failed: Int[Array, " seeds"]  # the epoch at which a loss was not finite, or -1
    history: Float[Array, "seeds epochs"]  # not a number beyond `epoch`
    seconds: Float[Array, ""]  # of training so far, before interruptions too

    @classmethod
    def fresh(cls, trained: PyTree, transform: optax.GradientTransformation, seeds: int, epochs: int) -> "Progress":
        """Before the first epoch."""
        wide = jnp.result_type(float)
        return cls(
            trained,
            jax.vmap(transform.init)(trained),
            trained,
            jnp.full(seeds, jnp.inf, wide),
            jnp.array(0),
            jnp.full(seeds, -1),
            jnp.full((seeds, epochs), jnp.nan, wide),
            jnp.zeros((), wide),
        )

    def later(self, seconds: float) -> "Progress":
        """With more time spent."""
        return dataclasses.replace(self, seconds=self.seconds + seconds)


@dataclasses.dataclass(frozen=True)
class Fit:
    """Trained models (leading axis: seeds), the loss of every epoch, and the time it took."""

    models: PyTree
    history: np.ndarray
    seconds_compile: float
    seconds_train: float


class Diverged(InputError):
    """The loss stopped being finite; the last good state is in the last checkpoint."""


def fit(
    models: PyTree,
    loss: Callable,
    samples: PyTree,
    optimiser: Adam,
    *,
    epochs: int,
    batch: int,
    keys: Key[Array, " seeds"],
    resume_from: Callable[[Progress], Progress | None] = lambda fresh: None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Fit:
    """Minimise the mean of `loss(model, sample)` over `samples`; keep each seed's best epoch by training loss.

    `models` and `keys` carry seeds along their leading axis; `samples` is shared. Every seed shuffles anew each epoch,
    from its key and the number of the epoch alone. `report` is called between compiled chunks with the state so far;
    `resume_from` may turn the fresh state into an earlier one, from which training goes on as if never interrupted.
    """
    count = jax.tree.leaves(samples)[0].shape[0]
    check_batch(batch, count)
    trained, rest = eqx.partition(models, is_trainable(models))
    fixed, static = eqx.partition(rest, eqx.is_array)
    transform = optimiser.transform()
    seeds, wide = keys.shape[0], jnp.result_type(float)
    fresh = Progress.fresh(trained, transform, seeds, epochs)
    progress = resume_from(fresh) or fresh

    def mean_loss(trained, fixed, rows, used):
        model = eqx.combine(trained, fixed, static)
        losses = jax.vmap(lambda sample: loss(model, sample))(jax.tree.map(lambda leaf: leaf[rows], samples))
        return jnp.mean(losses) if used is None else jnp.sum(losses * used) / jnp.sum(used)

    def one_epoch(seed, epoch):
        trained, state, fixed, key = seed
        order = jax.random.permutation(jax.random.fold_in(key, epoch), count)
        batches, used = _batches(order, batch)
        rate = optimiser.rate(epoch)

        def step(carry, batch):
            trained, state = carry
            rows, used = batch
            value, gradient = jax.value_and_grad(mean_loss)(trained, fixed, rows, used)
            direction, state = transform.update(gradient, state, trained)
            trained = optax.apply_updates(trained, jax.tree.map(lambda d: -rate.astype(d.dtype) * d, direction))
            return (trained, state), value

        (trained, state), values = jax.lax.scan(
            step, (trained, state), (batches, used), unroll=2
        )  # spares a copy of the weights
        return trained, state, jnp.mean(values)

    def advance(progress: Progress, fixed, keys, until) -> Progress:
        def epoch_of_all(progress):
            # One seed after the other: the weights of one fit into a core's cache, those of all do not.
            trained, state, losses = jax.lax.map(
                lambda seed: one_epoch(seed, progress.epoch), (progress.trained, progress.optimiser, fixed, keys)
            )
            losses = losses.astype(wide)
            good = jnp.isfinite(losses)
            better = losses < progress.best_loss
            return Progress(
                _where(good, trained, progress.trained),
                _where(good, state, progress.optimiser),
                _where(better, trained, progress.best),
                jnp.where(better, losses, progress.best_loss),
                progress.epoch + 1,
                jnp.where(good | (progress.failed >= 0), progress.failed, progress.epoch),
                progress.history.at[:, progress.epoch].set(losses),
                progress.seconds,
            )

        return jax.lax.while_loop(
            lambda progress: (progress.epoch < until) & jnp.all(progress.failed < 0), epoch_of_all, progress
        )

    started = time.perf_counter()
    steps = len(keys) * epochs * math.ceil(count / batch)
    program = compiled(advance, progress, fixed, keys, jnp.array(epochs), steps=steps)
    compile_seconds = time.perf_counter() - started

    chunk = 1
    while int(progress.epoch) < epochs:
        before = time.perf_counter()
        done = int(progress.epoch)
        progress = jax.block_until_ready(program(progress, fixed, keys, jnp.array(min(done + chunk, epochs))))
        took = time.perf_counter() - before
        progress = progress.later(took)
        report(progress)
        if np.any(np.asarray(progress.failed) >= 0):
            seed = int(np.argmax(np.asarray(progress.failed) >= 0))
            raise Diverged(
                f"the loss of seed {seed} stopped being finite in epoch {int(progress.failed[seed]) + 1}; the last "
                f"good state is kept: lower learning_rate, set clip, or check the labels"
            )
        chunk = max(1, round(chunk * CHUNK_SECONDS / took))
    return Fit(eqx.combine(progress.best, rest), np.asarray(progress.history), compile_seconds, float(progress.seconds))


def check_batch(batch: int, count: int) -> None:
    """An error unless a batch fits into the training samples."""
    if not 1 <= batch <= count:
        raise InputError(f"got a batch of {batch}, but there are {count} training samples: choose 1 to {count}")


def _batches(order: Int[Array, " samples"], batch: int):
    """Rows of each batch; the last one is filled up with rows that are marked as unused."""
    count = order.shape[0]
    number = math.ceil(count / batch)
    rows = jnp.resize(order, (number, batch))
    used = None if count == number * batch else jnp.arange(number * batch).reshape(number, batch) < count
    return rows, used


def _where(condition, new, old):
    """Per seed: `new` where the condition holds, `old` elsewhere."""
    return jax.tree.map(lambda n, o: jnp.where(condition.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)
