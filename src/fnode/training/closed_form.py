"""The closed-form fit of a Lagrangian library: one singular value decomposition for all ridges."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from fnode.models import is_trainable
from fnode.models.library import Library
from fnode.training.flattening import in_line, in_place
from fnode.training.losses import Labelled, derivative_residual

GROWTH = 2.0  # how much more a term is held back for each degree
FIRST_RIDGE = 1e-8  # of the fit that only serves to weigh the samples
LEAST_RIDGE, ROUNDS, OFF = 1e-14, 10, 10.0  # of fits that find labels out, and how many median errors off those are
MOVING = 5.0  # rates, in units of those at which friction is fully there, above which a joint moves
TELLING, ALIKE = 10, 4.0  # samples at rest, and how far their quartiles may be apart, to tell these units


class LibraryFit:
    """The coefficients of a library in closed form, for any choice of samples and ridges.

    The balance of forces is linear and homogeneous in the coefficients `c`: minimise `|A c|^2 + ridge |S (c - c0)|^2`
    where the mean trace of the mass matrix sets the scale, `c0` is a unit mass matrix without forces, and `S` grows
    with the degree. A first fit balances forces; the second divides them by the mass matrix found, so that errors
    count as accelerations in units of their labels' spread.

    Where friction goes with a load, a joint at rest tells nothing of its size, so such samples are left aside, and
    with them labels that no smooth curve gives right, where friction turns over; afterwards those at rest tell at which
    rate friction is fully there.
    """

    def __init__(self, model: Library, samples: Labelled, allowed: Library | None = None):
        self.trained, self.fixed = eqx.partition(model, is_trainable(model))
        self.samples = samples
        self.sought = sought(model, allowed)
        design, values = _design(model, samples)
        self.design = np.asarray(design)[..., self.sought]  # samples, coordinates, coefficients
        self.values = np.asarray(values)  # samples, terms
        self.spread = np.maximum(np.std(np.asarray(samples.rate), axis=0), 1e-12)
        self.problem = _Problem(self.trained, model, self.values.mean(axis=0), samples.x.q.shape[1], self.sought)
        self.rates = None if model.load is None else np.asarray(jax.vmap(model.load.rates)(samples.x.v, values))

    def solve(self, ridges: Sequence[float], used: np.ndarray) -> list[Library]:
        """The library of least imbalance over the samples marked in `used`, for every ridge."""
        return [self._slipping(c, used) for c in self.problem.solve(self._balanced(used), ridges)]

    def prune(self, sizes: Sequence[int], used: np.ndarray) -> list[Library]:
        """The library with that many coefficients, for every size: those that matter least are dropped one by one."""
        return [self._slipping(c, used) for c in self.problem.prune(self._balanced(used), sizes)]

    def misses(self, models: Sequence[Library], asked: np.ndarray) -> np.ndarray:
        """The median error of each library on the labels of the samples that are asked for."""
        samples = jax.tree.map(lambda leaf: leaf[asked], self.samples)
        return np.array([np.median(_misses(model, samples)) for model in models])

    @property
    def size(self) -> int:
        """How many coefficients are sought."""
        return len(self.sought)

    def _balanced(self, used: np.ndarray) -> np.ndarray:
        """The design in units of the labels' spread, forces divided by a first estimate of the masses; without what
        tells nothing of friction."""
        if self.rates is None:
            return self._divided(used)
        moving = used & (np.abs(self.rates) > MOVING).all(axis=1)
        if 2 * self.size > moving.sum() * self.design.shape[1]:  # too few move to tell anything
            return self._divided(used)
        design = self._divided(moving)
        sound = np.full(len(design), True)
        for _ in range(ROUNDS):
            (first,) = self.problem.solve(design[sound], [LEAST_RIDGE])
            missed = np.abs(design @ first).max(axis=1)
            sound = missed <= OFF * np.median(missed[sound])
        return design[sound]

    def _divided(self, used: np.ndarray) -> np.ndarray:
        n, design = self.design.shape[1], self.design[used]
        (first,) = self.problem.solve(design / np.linalg.norm(self.spread), [FIRST_RIDGE])
        rows, columns = np.triu_indices(n)
        masses = np.empty((len(design), n, n))
        masses[:, rows, columns] = masses[:, columns, rows] = self.values[used] @ np.asarray(self._model(first).mass).T
        positive = np.linalg.eigvalsh(masses)[:, 0] > 1e-6 * np.trace(masses, axis1=1, axis2=2)
        inverse = np.linalg.inv(np.where(positive[:, None, None], masses, np.eye(n)))
        weight = 1.0 if self.samples.weight is None else np.sqrt(np.asarray(self.samples.weight)[used])
        return (inverse @ design) * np.broadcast_to(weight / self.spread, design.shape[:2])[..., None]

    def _slipping(self, coefficients: np.ndarray, used: np.ndarray) -> Library:
        """The library of these coefficients; joints at rest tell at which rates its friction is fully there."""
        model = self._model(coefficients)
        if self.rates is None or model.load is None or model.loads is None:
            return model
        slip, shape = np.array(model.load.slip), np.array(model.load.shape)
        load = self.design[..., -model.loads.size :]
        forces = load.reshape(*load.shape[:2], len(slip), -1)
        missed = self.design @ coefficients
        for joint, own in enumerate(np.split(coefficients[-model.loads.size :], len(slip))):
            rate, force = self.rates[:, joint], forces[:, :, joint] @ own
            there = used & (np.abs(rate) < MOVING) & (np.abs(rate) > 1e-6)
            size = np.maximum(np.sum(force[there] ** 2, axis=1), 1e-300)
            # The share of its greatest value that friction must have for the balance to hold.
            share = np.tanh(rate[there]) * (1 - np.sum(missed[there] * force[there], axis=1) / size)
            telling = (share * rate[there] > 0) & (np.abs(share) > 0.05) & (np.abs(share) < 0.95)
            if np.sum(telling) >= TELLING:
                found = np.arctanh(share[telling]) / rate[there][telling]
                low, middle, high = np.quantile(found, (0.25, 0.5, 0.75))
                if high < ALIKE * low:
                    slip[joint] /= middle
                    firsts = self.values[there][telling][:, : shape.shape[1]]
                    shape[joint] += _ridge(firsts, found / middle - 1, 1e-6)
        return eqx.tree_at(lambda m: (m.load.slip, m.load.shape), model, (jnp.asarray(slip), jnp.asarray(shape)))

    def _model(self, coefficients: np.ndarray) -> Library:
        values = np.zeros(sum(leaf.size for leaf in jax.tree.leaves(self.trained)))
        values[self.sought] = coefficients
        return eqx.combine(in_place(values, self.trained), self.fixed)


def sought(model: Library, allowed: Library | None = None) -> np.ndarray:
    """Which of a library's coefficients, one after the other, are allowed; all of them by default."""
    leaves = jax.tree.leaves(eqx.filter(model if allowed is None else allowed, is_trainable(model)))
    marks = [np.full(leaf.size, True) if allowed is None else np.asarray(leaf, bool).ravel() for leaf in leaves]
    return np.flatnonzero(np.concatenate(marks))


def _ridge(design: np.ndarray, target: np.ndarray, ridge: float) -> np.ndarray:
    """Small coefficients by which the design comes near the target."""
    gram = design.T @ design / len(design)
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), design.T @ target / len(design))


class _Problem:
    """Constrained ridge regression in the coefficients of a library."""

    def __init__(self, trained: Library, model: Library, mean: np.ndarray, n: int, sought: np.ndarray):
        diagonal = np.array([i == j for i, j in zip(*np.triu_indices(n), strict=True)], float)
        high, stored = GROWTH**model.basis.orders, GROWTH**model.stored.orders
        constant = (model.basis.orders == 0).astype(float)

        def layout(mass, potential, other, friction):
            """These values in the places of the coefficients sought; those of loads are as others."""
            values = eqx.tree_at(
                lambda m: (m.mass, m.potential, m.damping, m.push),
                trained,
                (
                    np.broadcast_to(mass, model.mass.shape),
                    np.broadcast_to(potential, model.potential.shape),
                    np.broadcast_to(other, model.damping.shape),
                    np.broadcast_to(other, model.push.shape),
                ),
            )
            if model.friction is not None:
                values = eqx.tree_at(lambda m: m.friction, values, np.full(model.friction.shape, friction))
            if model.loads is not None:
                values = eqx.tree_at(lambda m: m.loads, values, np.broadcast_to(other, model.loads.shape))
            return in_line(values)[sought]

        self.n, self.trace = n, layout(diagonal[:, None] * mean, 0.0, 0.0, 0.0)
        self.strength = layout(high, stored, high, GROWTH)
        self.prior = layout(diagonal[:, None] * constant, 0.0, 0.0, 0.0) * self.strength
        trace = self.trace / self.strength
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

    def prune(self, design: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
        """Coefficients of least imbalance with ever fewer of them, dropping the one whose loss costs least."""
        flat = design.reshape(-1, design.shape[-1])
        gram = flat.T @ flat / len(flat)
        gram = gram + 1e-12 * np.trace(gram) / len(gram) * np.eye(len(gram))
        left, found = np.arange(len(gram)), {}
        while True:
            bordered = np.block([[gram[np.ix_(left, left)], self.trace[left, None]], [self.trace[None, left], 0.0]])
            inverse = np.linalg.inv(bordered)
            values = self.n * inverse[:-1, -1]
            if len(left) in sizes:
                found[len(left)] = np.zeros(len(gram))
                found[len(left)][left] = values
            if len(left) <= min(sizes):
                return [found[size] for size in sizes]
            cost = values**2 / np.maximum(np.diag(inverse)[:-1], 1e-300)
            left = np.delete(left, int(np.argmin(cost)))


@eqx.filter_jit
def _misses(model: Library, samples: Labelled):
    """The squared error of every label."""
    return jax.vmap(lambda sample: jnp.sum(derivative_residual(model, sample) ** 2))(samples)


@eqx.filter_jit
def _design(model: Library, samples: Labelled):
    """How every sample's balance of forces goes with every coefficient, and the values of the terms."""

    def one(sample):
        return model.design(sample.x, sample.rate, sample.u), model.basis(model.variables(sample.x.q, sample.u))

    return jax.vmap(one)(samples)
