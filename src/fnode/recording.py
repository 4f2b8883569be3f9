"""A trajectory together with the part of it that training may see."""

import dataclasses
from collections.abc import Callable

from fnode.trajectory import Trajectory


@dataclasses.dataclass(frozen=True)
class Recording:
    """What is known of one motion: the truth it is scored against and the samples that may be learned from.

    The training part is `observed`: the first samples of the truth, with noise where that is studied. A recording
    held out as a whole has no observed part.
    """

    name: str
    truth: Trajectory
    observed: Trajectory | None
    control: Callable | None = None  # inputs and parameters as a function of time
    measured: Trajectory | None = None  # the training part before anything in it was estimated; nan where nothing was

    @property
    def training(self) -> int:
        """How many samples belong to the training part."""
        return 0 if self.observed is None else len(self.observed)

    @property
    def split(self) -> str:
        """Which parts there are: `train`, `test` or `train+test`."""
        return "test" if self.training == 0 else "train" if self.training == len(self.truth) else "train+test"
