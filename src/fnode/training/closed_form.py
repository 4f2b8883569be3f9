"""The closed-form fit of a Lagrangian library: one singular value decomposition for all ridges."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from fnode.models import is_trainable
from fnode.models.library import Library
from fnode.training.losses import Labelled

GROWTH = 2.0  # how much more a term is held back for each degree
FIRST_RIDGE = 1e-8  # of the fit that only serves to weigh the samples


def fit_library(model: Library, samples: Labelled, ridges: Sequence[float]) -> list[Library]:
    """The library's coefficients for every ridge.

    The balance of forces is linear and homogeneous in the coefficients `c`: minimise `|A c|^2 + ridge |S (c - c0)|^2`
    where the mean trace of the mass matrix sets the scale, `c0` is a unit mass matrix without forces, and `S` grows
    with the degree. A first fit balances forces; the second divides them by the mass matrix found, so that errors
    count as accelerations in units of their labels' spread.
    """
    trained, fixed = eqx.partition(model, is_trainable(model))
    unflatten = jax.flatten_util.ravel_pytree(trained)[1]
    n = samples.x.q.shape[1]
    design = np.asarray(_design(trained, fixed, samples))  # samples, coordinates, coefficients
    spread = np.maximum(np.std(np.asarray(samples.rate), axis=0), 1e-12)
    weight = np.ones((1, n)) if samples.weight is None else np.sqrt(np.asarray(samples.weight))
    mean = np.asarray(jax.vmap(lambda s: model.basis(model.variables(s.x.q, s.u)))(samples)).mean(axis=0)
    problem = _Problem(trained, model, mean, n)
    (first,) = problem.solve(design / np.linalg.norm(spread), [FIRST_RIDGE])
    masses = np.asarray(_masses(eqx.combine(unflatten(jnp.asarray(first)), fixed), samples))
    positive = np.linalg.eigvalsh(masses)[:, 0] > 1e-6 * np.trace(masses, axis1=1, axis2=2)
    inverse = np.linalg.inv(np.where(positive[:, None, None], masses, np.eye(n)))
    balanced = (inverse @ design) * (weight / spread)[..., None]
    return [eqx.combine(unflatten(jnp.asarray(c)), fixed) for c in problem.solve(balanced, ridges)]


class _Problem:
    """Constrained ridge regression in the coefficients of a library."""

    def __init__(self, trained: Library, model: Library, mean: np.ndarray, n: int):
        diagonal = np.array([i == j for i, j in zip(*np.triu_indices(n), strict=True)], float)
        high, stored = GROWTH**model.basis.orders, GROWTH**model.stored.orders
        constant = (model.basis.orders == 0).astype(float)

        def layout(mass, potential, other):
            values = eqx.tree_at(
                lambda m: (m.mass, m.potential, m.damping, m.push),
                trained,
                (
                    jnp.broadcast_to(mass, model.mass.shape),
                    jnp.broadcast_to(potential, model.potential.shape),
                    jnp.broadcast_to(other, model.damping.shape),
                    jnp.broadcast_to(other, model.push.shape),
                ),
            )
            return np.asarray(jax.flatten_util.ravel_pytree(values)[0])

        self.strength = layout(high, stored, high)
        self.prior = layout(diagonal[:, None] * constant, 0.0, 0.0) * self.strength
        trace = layout(diagonal[:, None] * mean, 0.0, 0.0) / self.strength
        # An orthonormal basis of the coefficients that leave the mean trace alone.
        self.free = scipy.linalg.null_space(trace[None])
        self.prior = self.prior * n / (trace @ self.prior)

    def solve(self, design: np.ndarray, ridges: Sequence[float]) -> list[np.ndarray]:
        """The coefficients of least imbalance for every ridge."""
        flat = design.reshape(-1, design.shape[-1]) / self.strength / np.sqrt(design.shape[0] * design.shape[1])
        left = np.concatenate([flat @ self.free, (flat @ self.prior)[:, None]], axis=1)
        reduced = np.asarray(np.linalg.qr(left, mode="r"))  # as many rows as coefficients, however many samples
        u, s, vt = np.linalg.svd(reduced[:, :-1], full_matrices=False)
        toward = u.T @ reduced[:, -1]
        found = []
        for ridge in ridges:
            w = -vt.T @ (s / (s**2 + ridge) * toward)
            found.append((self.prior + self.free @ w) / self.strength)
        return found


@eqx.filter_jit
def _design(trained, fixed, samples):
    """The slope of every sample's balance of forces in every coefficient."""
    flat, unflatten = jax.flatten_util.ravel_pytree(trained)

    def one(sample):
        def balance(p):
            return eqx.combine(unflatten(p), fixed).balance(sample.x, sample.rate, sample.u)

        return jax.jacfwd(balance)(jnp.zeros_like(flat))

    return jax.vmap(one)(samples)


@eqx.filter_jit
def _masses(model, samples):
    return jax.vmap(lambda s: model.mass_matrix(s.x.q, s.u))(samples)
