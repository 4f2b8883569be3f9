"""Designs of experiments over ranges of parameters, as endless lazy sequences of points."""

import abc
import dataclasses
from collections.abc import Mapping

import numpy as np
import scipy.stats
from jaxtyping import Float

from fnode.scale.shuffle import Shuffle, joined, uniform


@dataclasses.dataclass(frozen=True)
class AbstractDesign(abc.ABC):
    """Points of a box, one for each position 0, 1, 2, ...; the order follows from the seed and the position alone."""

    ranges: Mapping[str, tuple[float, float]]
    seed: int = dataclasses.field(default=0, kw_only=True)

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many points make one epoch."""

    @abc.abstractmethod
    def shares(self, places: np.ndarray, seed: int) -> Float[np.ndarray, "points parameters"]:
        """The points at consecutive places of an epoch with a seed, by 0 and 1 for the ends of each range."""

    def points(self, first: int, number: int) -> Float[np.ndarray, "points parameters"]:
        """The points at the positions `first` ... `first + number - 1`."""
        low, high = np.array(list(self.ranges.values())).T
        epochs, places = np.divmod(np.arange(first, first + number), self.count)
        shares = [self.shares(places[epochs == epoch], joined(self.seed, int(epoch))) for epoch in np.unique(epochs)]
        return low + (high - low) * np.concatenate(shares)


@dataclasses.dataclass(frozen=True)
class Grid(AbstractDesign):
    """Every combination of evenly spaced values, shuffled anew in each epoch; never held in memory."""

    levels: int = 4

    @property
    def count(self):
        return self.levels ** len(self.ranges)

    def shares(self, places, seed):
        combinations = Shuffle(self.count, seed)(places)
        powers = self.levels ** np.arange(len(self.ranges))[::-1]
        return combinations[:, None] // powers % self.levels / max(1, self.levels - 1)


@dataclasses.dataclass(frozen=True)
class Random(AbstractDesign):
    """Points anywhere in the box, new ones in every epoch."""

    trajectories: int = 2**18

    @property
    def count(self):
        return self.trajectories

    def shares(self, places, seed):
        width = len(self.ranges)
        return uniform(places[:, None] * width + np.arange(width), seed)


@dataclasses.dataclass(frozen=True)
class Sobol(AbstractDesign):
    """Points that fill the box evenly however many are taken: a Sobol sequence, scrambled anew in every epoch."""

    trajectories: int = 2**18

    @property
    def count(self):
        return self.trajectories

    def shares(self, places, seed):
        sequence = scipy.stats.qmc.Sobol(len(self.ranges), rng=np.random.default_rng(seed))
        first, number = int(places[0]), len(places)
        if first == 0:
            return sequence.random_base2((number - 1).bit_length())[:number]  # scipy warns of any other length
        return sequence.fast_forward(first).random(number)


DESIGNS: dict[str, type[AbstractDesign]] = {"grid": Grid, "random": Random, "sobol": Sobol}
