"""Random numbers and random orders of any length that are computed, not stored: each follows from its place alone."""

import dataclasses

import numpy as np
from jaxtyping import Float

ROUNDS = 6
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: consecutive multiples of it lie far apart


@dataclasses.dataclass(frozen=True)
class Shuffle:
    """A bijection of 0 ... count-1, another one for every seed.

    A Feistel network permutes the numbers below a power of four; a number that falls outside the count is sent round
    again until it falls inside. Memory and start-up cost nothing, however long the sequence.
    """

    count: int
    seed: int

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Where these places, all below the count, go."""
        half = max(1, (max(self.count - 1, 1).bit_length() + 1) // 2)
        keys = np.random.SeedSequence(self.seed).generate_state(ROUNDS, np.uint64)
        values = np.array(places, np.uint64)
        outside = np.full(values.shape, True)
        while outside.any():
            values[outside] = _feistel(values[outside], keys, half)
            outside = values >= self.count
        return values.astype(np.int64)


def uniform(places: np.ndarray, seed: int) -> Float[np.ndarray, "*places"]:
    """One random number between 0 and 1 for each place."""
    bits = mixed(np.uint64(seed) + np.asarray(places, np.uint64) * GOLDEN)
    return (bits >> np.uint64(11)) * 2.0**-53


def mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def joined(*numbers: int) -> int:
    """One whole number from several, far from that of their neighbours."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _feistel(values: np.ndarray, keys: np.ndarray, half: int) -> np.ndarray:
    mask = np.uint64((1 << half) - 1)
    left, right = values >> np.uint64(half), values & mask
    for key in keys:
        left, right = right, left ^ (mixed(right ^ key) & mask)
    return (left << np.uint64(half)) | right
