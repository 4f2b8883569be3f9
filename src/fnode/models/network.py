"""The multilayer perceptron of the paper's Table 1."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray


def perceptron(inputs: int, outputs: int, *, width: int, depth: int, key: PRNGKeyArray) -> eqx.nn.MLP:
    """`depth` hidden layers of `width` tanh neurons, Xavier-normal weights, zero biases."""
    network = eqx.filter_eval_shape(eqx.nn.MLP, inputs, outputs, width, depth, activation=jnp.tanh, key=key)
    weights = [layer.weight for layer in network.layers]
    keys = jax.random.split(key, len(weights))
    xavier = jax.nn.initializers.glorot_normal(in_axis=1, out_axis=0)
    fresh = [xavier(k, w.shape, w.dtype) for k, w in zip(keys, weights, strict=True)]
    silent = [jnp.zeros(w.shape[0], w.dtype) for w in weights]
    network = eqx.tree_at(lambda net: [layer.weight for layer in net.layers], network, fresh)
    return eqx.tree_at(lambda net: [layer.bias for layer in net.layers], network, silent)
