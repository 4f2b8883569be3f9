"""Adam as the paper uses it: a learning rate that decays once per epoch."""

import dataclasses

import jax
import jax.numpy as jnp
import optax


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam, or AdamW when `decoupled`; weight decay and clipping are off unless asked for.

    A coupled weight decay is added to the gradient (as in the code the paper's authors released), a decoupled one to
    the step.
    """

    learning_rate: float = 1e-3
    decay: float = 0.98
    weight_decay: float = 0.0
    decoupled: bool = False
    clip: float | None = None

    def transform(self) -> optax.GradientTransformation:
        """From gradients to steps of unit learning rate."""
        decay = [optax.add_decayed_weights(self.weight_decay)] if self.weight_decay else []
        return optax.chain(
            *([optax.clip_by_global_norm(self.clip)] if self.clip is not None else []),
            *([] if self.decoupled else decay),
            scale_by_adam(),
            *(decay if self.decoupled else []),
        )

    def rate(self, epoch: jax.Array) -> jax.Array:
        """The learning rate of an epoch, counted from zero."""
        return self.learning_rate * self.decay**epoch


def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> optax.GradientTransformation:
    """`optax.scale_by_adam` with the bias corrections moved into two scalars.

    At batch 1 the update of the weights is most of a step, and divisions are most of the update: this form has one of
    them per weight instead of three. `m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps)` is written as
    `c/(1-b1^t) * m / (sqrt(v) + c eps)` with `c = sqrt(1-b2^t)`.
    """

    def init(parameters):
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return optax.ScaleByAdamState(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(gradient, state, parameters=None):
        count = state.count + 1
        mean = jax.tree.map(lambda m, g: m + (1 - b1) * (g - m), state.mu, gradient)
        square = jax.tree.map(lambda v, g: v + (1 - b2) * (g * g - v), state.nu, gradient)

        def step(m, v):
            t = count.astype(m.dtype)
            c = jnp.sqrt(1 - b2**t)
            return c / (1 - b1**t) * m / (jnp.sqrt(v) + c * eps)

        return jax.tree.map(step, mean, square), optax.ScaleByAdamState(count, mean, square)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]
