r"""Real training of one hidden layer of ReLU units on a single point, in its weights.

$f(x)=(md)^{-1/2}\sum_iv_i\,\sigma(u_i\cdot x)$ with Gaussian weights, and gradient descent on half the squared
error. With frozen gates every unit stays as it was at the start: on, and linear from then on, or off.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

# Far from overflow in the square of a square.
_LARGEST = 1e60


class Weights(NamedTuple):
    """Weights of several networks, the input that they see, and which units are on."""

    u: Float[np.ndarray, "nets m d"]
    v: Float[np.ndarray, "nets m"]
    x: Float[np.ndarray, " d"]
    gates: Bool[np.ndarray, "nets m"]

    @property
    def scale(self) -> float:
        """(m d)^1/2, by which outputs are divided."""
        return float(np.sqrt(self.u.shape[1] * len(self.x)))

    @property
    def curvature(self) -> float:
        """|x|^2 / (m d)."""
        return float(self.x @ self.x) / self.scale**2

    @property
    def features(self) -> Float[np.ndarray, "nets m"]:
        """u_i . x of the units that are on, 0 for the others."""
        return np.where(self.gates, self.u @ self.x, 0.0)

    @property
    def outputs(self) -> Float[np.ndarray, " nets"]:
        return np.sum(self.v * self.features, axis=1) / self.scale

    @property
    def kernels(self) -> Float[np.ndarray, " nets"]:
        """Squared gradients of the outputs."""
        pulled = np.where(self.gates, self.v, 0.0)
        parts = np.sum(pulled**2, axis=1) * (self.x @ self.x) + np.sum(self.features**2, axis=1)
        return parts / self.scale**2

    @property
    def sums(self) -> Float[np.ndarray, "2 nets"]:
        """Mean squares of |x| v_i + u_i . x and of |x| v_i - u_i . x, over units that are on."""
        pulled = np.where(self.gates, self.v, 0.0) * np.linalg.norm(self.x)
        both = [np.sum((pulled + sign * self.features) ** 2, axis=1) for sign in (1, -1)]
        return np.array(both) / self.scale**2

    def copies(self, count: int) -> "Weights":
        """One network several times over."""
        return Weights(*(np.repeat(a, count, axis=0) for a in (self.u, self.v)), self.x, self.gates)

    def step(self, eta: Float[np.ndarray, " nets"], y: float, frozen: bool) -> "Weights":
        """All weights after one step of gradient descent; gates follow the weights unless frozen."""
        pull = (eta * (self.outputs - y) / self.scale)[:, None]
        u = self.u - (pull * np.where(self.gates, self.v, 0.0))[:, :, None] * self.x
        v = self.v - pull * self.features
        return Weights(u, v, self.x, self.gates if frozen else u @ self.x >= 0)


class Run(NamedTuple):
    """What training recorded, before the first step and after every step."""

    outputs: Float[np.ndarray, "times nets"]
    kernels: Float[np.ndarray, "times nets"]
    sums: Float[np.ndarray, "times 2 nets"]
    off: Float[np.ndarray, "times nets"]
    """Share of units that are off."""


def draw(rng: np.random.Generator, nets: int, width: int, n_in: int, output: float | None = None) -> Weights:
    """Random networks and an input; with an `output`, the last weights are shifted until all have it."""
    x = rng.normal(size=n_in)
    x = x * np.sqrt(n_in) / np.linalg.norm(x)
    u, v = rng.normal(size=(nets, width, n_in)), rng.normal(size=(nets, width))
    start = Weights(u, v, x, u @ x >= 0)
    if output is None:
        return start
    features = start.features
    missing = (output - start.outputs) * start.scale / np.sum(features**2, axis=1)
    return start._replace(v=v + missing[:, None] * features)


def train(start: Weights, y: float, eta: np.ndarray, steps: int, frozen: bool = True) -> Run:
    """Gradient descent; a network whose output has passed 1e60 stays where it is."""
    at, records = start, []
    for _ in range(steps + 1):
        records.append((at.outputs, at.kernels, at.sums, 1 - at.gates.mean(axis=1)))
        running = np.abs(at.outputs) < _LARGEST
        at = at.step(np.where(running, eta, 0.0), y, frozen)
    outputs, kernels, sums, off = (np.stack(part) for part in zip(*records, strict=True))
    return Run(outputs, kernels, sums, np.broadcast_to(off, outputs.shape))
