"""A measured number: its value, its standard error, and how well the error itself is known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

# Blocks that a jackknife leaves out in turn: so many that its error is nearly a Gaussian's.
_BLOCKS = 200

Numbers = np.ndarray | np.floating | float


@dataclass(frozen=True, eq=False)
class Estimate:
    """A measured array, its standard error (zero where the measurement is exact) and its degrees of freedom.

    The degrees of freedom are those of the standard error: one less than the number of draws or blocks that
    it was computed from, infinite where it is known. `value, sem = estimate` unpacks the first two.
    """

    value: Float[np.ndarray, "*shape"]
    sem: Float[np.ndarray, "*shape"]
    dof: Float[np.ndarray, "..."] | float = np.inf

    @classmethod
    def of(cls, value: Any, sem: Any, dof: Any = np.inf) -> "Estimate":
        """The same with arrays in place of single numbers."""
        return cls(*(np.asarray(part, dtype=float) for part in (value, sem, dof)))

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.value, self.sem))

    def __getitem__(self, index: Any) -> "Estimate":
        """The entries that NumPy's indexing picks."""
        dof = np.broadcast_to(self.dof, self.value.shape)
        return Estimate.of(*(part[index] for part in (self.value, self.sem, dof)))

    def times(self, factor: Numbers) -> "Estimate":
        """The estimate of a known multiple."""
        return Estimate.of(self.value * factor, self.sem * np.abs(factor), self.dof)

    def plus(self, known: Numbers) -> "Estimate":
        """The estimate of the sum with a known number."""
        return Estimate.of(self.value + known, self.sem, self.dof)

    def reshape(self, *shape: int) -> "Estimate":
        """The same entries in another shape."""
        parts = (self.value, self.sem, np.broadcast_to(self.dof, self.value.shape))
        return Estimate(*(part.reshape(*shape) for part in parts))


def sample_mean(samples: np.ndarray) -> Estimate:
    """Mean over the first axis, whose entries are independent draws."""
    sem = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return Estimate.of(samples.mean(axis=0), sem, len(samples) - 1)


def jackknife(moments: np.ndarray, function: Callable[[np.ndarray], Numbers]) -> Estimate:
    """A function of the mean over the first axis, its standard error from leaving out blocks of draws."""
    blocks = np.array_split(moments, min(_BLOCKS, len(moments)))
    sums = np.stack([block.sum(axis=0) for block in blocks])
    sizes = np.array([len(block) for block in blocks])
    total = sums.sum(axis=0)
    left_out = np.stack(
        [function((total - part) / (len(moments) - size)) for part, size in zip(sums, sizes, strict=True)]
    )
    sem = np.sqrt((len(blocks) - 1) * left_out.var(axis=0))
    return Estimate.of(function(total / len(moments)), sem, len(blocks) - 1)
