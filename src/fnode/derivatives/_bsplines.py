"""B-splines on any knots: values, derivatives and banded inner products."""

import dataclasses
import functools

import numpy as np
from scipy import sparse


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a matrix R with few entries each: `values[a, i]` stands in row i, column `first[i] + a`."""

    first: np.ndarray
    values: np.ndarray
    size: int

    @functools.cached_property
    def matrix(self) -> sparse.csr_array:
        width, count = self.values.shape
        columns = self.first[:, None] + np.arange(width)
        starts = width * np.arange(count + 1)
        return sparse.csr_array((self.values.T.ravel(), columns.ravel(), starts), shape=(count, self.size))

    def gram(self, weights: np.ndarray | float = 1.0) -> np.ndarray:
        """The banded matrix `R' W R`; rows that begin at the same column must be neighbours."""
        width, weighted = len(self.values), weights * self.values
        band = np.zeros((width, self.size))
        begins = np.flatnonzero(np.diff(self.first, prepend=-1))
        column = self.first[begins]
        for a in range(width):
            products = weighted[a] * self.values[a:]
            band[: width - a, column + a] += np.add.reduceat(products, begins, axis=1)
        return band

    def spread(self, band: np.ndarray) -> np.ndarray:
        """The diagonal of `R S R'` for a symmetric S of which the band is known."""
        width = len(self.values)
        total = np.zeros(len(self.first))
        for a in range(width):
            column = self.first + a
            for k in range(width - a):
                total += (1 + (k > 0)) * self.values[a] * self.values[a + k] * band[k][column]
        return total


@dataclasses.dataclass(frozen=True)
class Basis:
    """All splines of a degree with the given breakpoints, by their B-spline coefficients."""

    breakpoints: np.ndarray
    degree: int

    @property
    def size(self) -> int:
        return len(self.breakpoints) - 1 + self.degree

    @functools.cached_property
    def knots(self) -> np.ndarray:
        first, last = self.breakpoints[[0, -1]]
        return np.concatenate([np.full(self.degree, first), self.breakpoints, np.full(self.degree, last)])

    def rows(self, ts: np.ndarray, order: int = 0) -> Rows:
        """The derivative of this order of every B-spline at each time (de Boor's recursion, then his differences)."""
        degree, count = self.degree, len(ts)
        span = np.clip(np.searchsorted(self.breakpoints, ts, "right") - 1, 0, len(self.breakpoints) - 2)
        around = self.knots[span + np.arange(2 * degree + 2)[:, None]]  # the knots that touch each time
        after, before = around[degree + 1 :] - ts, ts - around[: degree + 1]
        values = np.ones((1, count))
        for k in range(1, degree + 1):
            to_right, to_left = after[:k], before[degree + 1 - k :]
            share = values / (to_right + to_left)
            values = np.zeros((k + 1, count))
            if k <= degree - order:
                np.multiply(share, to_right, out=values[:-1])
                values[1:] += share * to_left
            else:
                values[1:] = k * share
                values[:-1] -= k * share
        return Rows(span, values, self.size)

    def quadrature(self, order: int) -> "Quadrature":
        """How to integrate products of derivatives of this order exactly."""
        nodes, weights = np.polynomial.legendre.leggauss(self.degree + 1 - order)
        half = np.diff(self.breakpoints)[:, None] / 2
        ts = self.breakpoints[:-1, None] + half * (1 + nodes)
        return Quadrature(self.rows(ts.ravel(), order), half * weights)


@dataclasses.dataclass(frozen=True)
class Quadrature:
    """Derivatives of B-splines at Gauss's nodes between the breakpoints, and the weight of each node."""

    rows: Rows
    weights: np.ndarray

    def energy(self, density: np.ndarray | float = 1.0) -> np.ndarray:
        """The banded matrix of `integral w f^(order) g^(order) dt`, the density w constant between breakpoints."""
        return self.rows.gram((self.weights * np.reshape(density, (-1, 1))).ravel())


@functools.cache
def even_energy(intervals: int, degree: int, order: int) -> np.ndarray:
    """The energy on breakpoints 0, 1, 2, ...: that of a short stretch, its inner column repeated."""
    short = min(intervals, 2 * degree + 2)
    band = Basis(np.arange(short + 1.0), degree).quadrature(order).energy()
    if short == intervals:
        return band
    return np.insert(band, [degree] * (intervals - short), band[:, [degree]], axis=1)
