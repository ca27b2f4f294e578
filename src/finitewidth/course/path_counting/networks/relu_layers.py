"""Random ReLU networks without biases by their matrices: gates, derivatives and tangent kernels."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth.course._instruments.linear_networks import random_generator

# Random numbers held in memory at a time.
_NUMBERS_AT_ONCE = 3_000_000


class Layers(NamedTuple):
    """Some networks: matrices (draws, out, in) of weights, and what leaves every layer at every input."""

    matrices: list[Float[np.ndarray, "draws _ _"]]
    entering: list[Float[np.ndarray, "draws m _"]]
    gates: list[Float[np.ndarray, "draws m _"]]

    def backward(self) -> list[Float[np.ndarray, "draws m _"]]:
        """Derivatives of the first output by the preactivations of every layer."""
        last = np.zeros_like(self.matrices[-1][:, :, 0])
        last[:, 0] = 1.0
        found = [np.repeat(last[:, None], self.entering[0].shape[1], axis=1)]
        for matrix, gate in zip(self.matrices[:0:-1], self.gates[::-1], strict=True):
            found.append(gate * np.einsum("dmi,dij->dmj", found[-1], matrix))
        return found[::-1]

    def kernels(self) -> Float[np.ndarray, "draws layers m m"]:
        """What each matrix adds to the NTK of the first output, with rates 2/fan-in."""
        gram = lambda v: np.einsum("dai,dbi->dab", v, v)
        terms = [
            2 / h.shape[2] * gram(h) * gram(g) for h, g in zip(self.entering, self.backward(), strict=True)
        ]
        return np.stack(terms, axis=1)

    def derivative(self, direction: Float[np.ndarray, " n_in"]) -> Float[np.ndarray, "draws _"]:
        """The derivative of what leaves the last hidden layer along a direction, at the first input."""
        moved = np.einsum("dij,j->di", self.matrices[0], direction)
        for matrix, gate in zip(self.matrices[1:], self.gates, strict=True):
            moved = gate[:, 0] * moved
            if matrix is not self.matrices[-1]:
                moved = np.einsum("dij,dj->di", matrix, moved)
        return moved


def relu_networks(
    x: Float[np.ndarray, "m n_in"],
    hidden: Sequence[int],
    key: PRNGKeyArray,
    draws: int,
    n_out: int = 1,
    weights: str = "gaussian",
) -> Iterator[Layers]:
    """Independent networks with weights of variance 2/fan-in, in parts that fit into memory."""
    rng = random_generator(key)
    sizes = (x.shape[1], *hidden, n_out)
    numbers = sum(a * b for a, b in itertools.pairwise(sizes)) + 4 * len(x) * sum(sizes)
    part = max(1, _NUMBERS_AT_ONCE // numbers)
    for start in range(0, draws, part):
        count = min(part, draws - start)
        draw = (
            rng.standard_normal if weights == "gaussian" else lambda shape: rng.uniform(-1, 1, shape) * 3**0.5
        )
        matrices = [draw((count, b, a)) * np.sqrt(2 / a) for a, b in itertools.pairwise(sizes)]
        entering, gates = [np.repeat(x[None], count, axis=0)], []
        for matrix in matrices[:-1]:
            z = np.einsum("dij,dmj->dmi", matrix, entering[-1])
            gates.append((z >= 0).astype(float))
            entering.append(gates[-1] * z)
        yield Layers(matrices, entering, gates)
