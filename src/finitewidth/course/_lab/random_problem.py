"""Problems with random data that follow from a key."""

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

Problem = TypeVar("Problem", bound="RandomProblem")


@dataclass(frozen=True, kw_only=True)
class RandomProblem:
    """Sizes of a problem, and the seed of its data: theory and measurement see the same ones."""

    seed: int = 0

    def rng(self, *part: int) -> np.random.Generator:
        """Random numbers for one part of the data; those of different parts are independent."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=part))

    def drawn(self: Problem, key: PRNGKeyArray) -> Problem:
        """The problem of the same sizes that belongs to a key."""
        return dataclasses.replace(self, seed=int(jax.random.bits(key, dtype="uint32")))
