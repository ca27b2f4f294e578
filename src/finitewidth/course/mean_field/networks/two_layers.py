"""Many networks with one hidden tanh layer on numbers, trained together in NumPy."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Trained(NamedTuple):
    """Networks at the end of training."""

    start: Float[np.ndarray, "networks m 3"]
    """Input weight, bias and output weight of every neuron at the start."""
    end: Float[np.ndarray, "networks m 3"]
    before: Float[np.ndarray, "networks t"]
    """Outputs at the test points at the start."""
    after: Float[np.ndarray, "networks t"]

    @property
    def motion(self) -> Float[np.ndarray, " networks"]:
        """Mean squared motion of a neuron."""
        return np.sum((self.end - self.start) ** 2, axis=-1).mean(axis=-1)


def outputs(
    neurons: Float[np.ndarray, "networks m 3"], x: Float[np.ndarray, " n"], scale: float
) -> Float[np.ndarray, "networks n"]:
    """scale times the sum of a tanh(w x + b)."""
    w, b, a = np.moveaxis(neurons, -1, 0)
    return scale * np.einsum("rm,rmn->rn", a, np.tanh(w[..., None] * x + b[..., None]))


def train(
    neurons: Float[np.ndarray, "networks m 3"],
    x: Float[np.ndarray, " n"],
    y: Float[np.ndarray, " n"],
    x_test: Float[np.ndarray, " t"],
    scale: float,
    rate: float,
    steps: int,
) -> Trained:
    """Gradient descent on half the mean squared error, all weights at one rate."""
    at = neurons
    for _ in range(steps):
        w, b, a = np.moveaxis(at, -1, 0)
        hidden = np.tanh(w[..., None] * x + b[..., None])
        error = (scale * np.einsum("rm,rmn->rn", a, hidden) - y) / len(x)
        back = (1 - hidden**2) * a[..., None] * error[:, None]
        slopes = back @ x, back.sum(axis=-1), np.einsum("rmn,rn->rm", hidden, error)
        at = at - rate * scale * np.stack(slopes, axis=-1)
    ends = (outputs(part, x_test, scale) for part in (neurons, at))
    return Trained(neurons, at, *ends)
