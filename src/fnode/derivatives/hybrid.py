"""The paper's hybrid: its Fourier labels inside, three-point differences near the ends."""

import dataclasses
from typing import ClassVar

import numpy as np

from fnode.derivatives._base import AbstractDerivative, Derivative
from fnode.derivatives.difference import Difference
from fnode.derivatives.fourier import Fourier

WAVES, NEIGHBOURS = Fourier(), Difference(order=2, end_order=1)


@dataclasses.dataclass(frozen=True)
class Hybrid(AbstractDerivative):
    """Differences on the first and last `1/share` of the samples, then a cosine blend into the Fourier labels.

    The blend takes a quarter as many samples as the end stretch, at most `blend`: what the released code does.
    """

    share: int = 50
    blend: int = 10
    fourier: Fourier = WAVES
    difference: Difference = NEIGHBOURS

    irregular: ClassVar[bool] = False
    linear: ClassVar[bool] = True

    @property
    def minimum(self) -> int:
        return max(self.fourier.minimum, self.difference.minimum)

    def differentiate(self, ts, ys, order):
        inside = self.inside(len(ts))[:, None]
        ends, middle = (method.differentiate(ts, ys, order).value for method in (self.difference, self.fourier))
        return Derivative((1 - inside) * ends + inside * middle)

    def inside(self, count: int) -> np.ndarray:
        """The weight of the Fourier labels: zero at the ends, one inside, a raised cosine between."""
        end = max(1, count // self.share)
        blend = max(1, min(self.blend, end // 4))
        distance = np.minimum(np.arange(count), np.arange(count)[::-1])
        return 0.5 * (1 - np.cos(np.pi * np.clip((distance - end + 1) / (blend + 1), 0.0, 1.0)))
