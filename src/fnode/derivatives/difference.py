"""Finite differences: derivatives of the polynomial through a few neighbouring samples, on any grid."""

import dataclasses
import math
from typing import ClassVar

import numpy as np

from fnode.derivatives._base import AbstractDerivative, Derivative


@dataclasses.dataclass(frozen=True)
class Difference(AbstractDerivative):
    """Differences that are exact for polynomials up to a degree.

    Inside, `order + 1` samples around each one; near the ends, where those would not be centred, the nearest
    `end_order + 1` samples (one more for second derivatives). The paper's labels are `order=2, end_order=1`.
    """

    order: int = 2
    end_order: int = 2

    irregular: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    @property
    def minimum(self) -> int:
        return max(self.order, self.end_order) + 1

    def differentiate(self, ts, ys, order=1):
        samples, weights = self.stencils(ts, order)
        return Derivative(np.einsum("rs,rsc->rc", weights, ys[samples]))

    def stencils(self, ts: np.ndarray, order: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """For each sample, the neighbours its derivative is made of and their weights; unused places weigh nothing."""
        reach = self.order // 2
        end_degree = min(self.end_order + order - 1, len(ts) - 1)
        rows = np.arange(len(ts))
        centred = (rows >= reach) & (rows < len(ts) - reach)
        samples = np.zeros((len(ts), max(self.order, end_degree) + 1), int)
        weights = np.zeros(samples.shape)
        for inside, degree in ((centred, self.order), (~centred, end_degree)):
            here = rows[inside]
            first = np.clip(here - degree // 2, 0, len(ts) - degree - 1)
            stencil = first[:, None] + np.arange(degree + 1)
            samples[inside, : degree + 1] = stencil
            weights[inside, : degree + 1] = difference_weights(ts[stencil] - ts[here, None], order)
        return samples, weights


def difference_weights(offsets: np.ndarray, order: int = 1) -> np.ndarray:
    """Weights of a derivative at zero, for samples at each row of `offsets`.

    The Lagrange polynomial of sample j is a product of factors `(x - x_m)/(x_j - x_m)`; its Taylor coefficients at zero
    are collected factor by factor, and the derivative is `order!` times one of them.
    """
    points = offsets.shape[1]
    weights = np.empty_like(offsets)
    for j in range(points):
        taylor = np.zeros((len(offsets), order + 1))
        taylor[:, 0] = 1.0
        for m in range(points):
            if m != j:
                raised = -offsets[:, [m]] * taylor
                raised[:, 1:] += taylor[:, :-1]
                taylor = raised / (offsets[:, [j]] - offsets[:, [m]])
        weights[:, j] = math.factorial(order) * taylor[:, order]
    return weights
