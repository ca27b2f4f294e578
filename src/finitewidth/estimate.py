"""A measured number: its value, its standard error, and how well the error itself is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

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
