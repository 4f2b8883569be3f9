"""Which arrays of a model training may change."""

import equinox as eqx
import jax

from fnode.models.library import Load
from fnode.models.polynomial import Polynomial
from fnode.models.scaler import Scaler

FIXED = (Scaler, Polynomial, Load)


def is_trainable(model):
    """A mask over the leaves of `model`: true for the arrays that training may change, so not for scalers and for what
    was fitted in closed form."""
    return jax.tree.map(
        lambda node: jax.tree.map(lambda _: False, node) if isinstance(node, FIXED) else eqx.is_inexact_array(node),
        model,
        is_leaf=lambda node: isinstance(node, FIXED),
    )
