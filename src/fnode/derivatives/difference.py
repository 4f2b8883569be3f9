"""Finite differences: derivatives of the polynomial through a few neighbouring samples, on any grid."""

import dataclasses
from typing import ClassVar

import numpy as np

from fnode.derivatives._base import AbstractDerivative, Derivative


@dataclasses.dataclass(frozen=True)
class Difference(AbstractDerivative):
    """Differences that are exact for polynomials up to a degree.

    Inside, `order + 1` samples around each one; near the ends, where those would not be centred, the nearest
    `end_order + 1` samples. The paper's labels are `order=2, end_order=1`.
    """

    order: int = 2
    end_order: int = 2

    irregular: ClassVar[bool] = True

    @property
    def minimum(self) -> int:
        return max(self.order, self.end_order) + 1

    def differentiate(self, ts, ys):
        reach = self.order // 2
        samples = np.arange(len(ts))
        centred = (samples >= reach) & (samples < len(ts) - reach)
        value = np.empty_like(ys)
        for inside, order in ((centred, self.order), (~centred, self.end_order)):
            rows = samples[inside]
            first = np.clip(rows - order // 2, 0, len(ts) - order - 1)
            stencil = first[:, None] + np.arange(order + 1)
            weights = difference_weights(ts[stencil] - ts[rows, None])
            value[inside] = np.einsum("rs,rsc->rc", weights, ys[stencil])
        return Derivative(value)


def difference_weights(offsets: np.ndarray) -> np.ndarray:
    """Weights of the first derivative at zero, for samples at each row of `offsets`.

    The derivative of the Lagrange polynomials at zero: `l_j'(0) = sum_k 1/(x_j - x_k) prod_m (0 - x_m)/(x_j - x_m)`.
    """
    points = offsets.shape[1]
    weights = np.zeros_like(offsets)
    for j in range(points):
        others = [k for k in range(points) if k != j]
        for k in others:
            rest = [m for m in others if m != k]
            factors = -offsets[:, rest] / (offsets[:, [j]] - offsets[:, rest])
            weights[:, j] += np.prod(factors, axis=1) / (offsets[:, j] - offsets[:, k])
    return weights
