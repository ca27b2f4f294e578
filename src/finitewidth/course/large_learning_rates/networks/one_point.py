r"""Real training of one hidden layer of ReLU units on a single point, in its weights.

$f(x)=(md)^{-1/2}\sum_iv_i\,\sigma(u_i\cdot x)$ with Gaussian weights, and gradient descent on half the
squared error. With frozen gates every unit stays as it was at the start: on, and linear from then on, or off.
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
    gates: Bool[np.ndarray, "#nets m"]

    @property
    def scale(self) -> float:
        """(m d)^1/2, by which outputs are divided."""
        return float(np.sqrt(self.u.shape[1] * len(self.x)))

    @property
    def curvature(self) -> float:
        """|x|^2 / (m d)."""
        return float(self.x @ self.x) / self.scale**2

    @property
    def active(self) -> tuple[Float[np.ndarray, "nets m"], Float[np.ndarray, "nets m"]]:
        """u_i . x and v_i of the units that are on, 0 for the others."""
        return np.where(self.gates, self.u @ self.x, 0.0), np.where(self.gates, self.v, 0.0)

    @property
    def kernels(self) -> Float[np.ndarray, " nets"]:
        """Squared gradients of the outputs."""
        return self._kernels(*self.active)

    def copies(self, count: int) -> "Weights":
        """One network several times over."""
        return self._replace(u=np.repeat(self.u, count, axis=0), v=np.repeat(self.v, count, axis=0))

    def _kernels(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (np.sum(v**2, axis=1) * (self.x @ self.x) + np.sum(w**2, axis=1)) / self.scale**2


class Run(NamedTuple):
    """What training recorded, before the first step and after every step."""

    outputs: Float[np.ndarray, "times nets"]
    kernels: Float[np.ndarray, "times nets"]
    end: Weights

    @property
    def peaks(self) -> Float[np.ndarray, " nets"]:
        """Largest |z|."""
        return np.abs(self.outputs).max(axis=0)


def draw(rng: np.random.Generator, nets: int, width: int, n_in: int, output: float) -> Weights:
    """Random networks and an input with |x|^2 = d; the last weights are shifted until all have the output."""
    x = rng.normal(size=n_in)
    x = x * np.sqrt(n_in) / np.linalg.norm(x)
    u, v = rng.normal(size=(nets, width, n_in)), rng.normal(size=(nets, width))
    start = Weights(u, v, x, u @ x >= 0)
    w, _ = start.active
    missing = output * start.scale - np.sum(v * w, axis=1)
    return start._replace(v=v + (missing / np.sum(w**2, axis=1))[:, None] * w)


def train(start: Weights, y: float, eta: np.ndarray, steps: int, frozen: bool = True) -> Run:
    """Gradient descent on all weights; a network whose output has passed 1e60 stays where it is.

    Gates follow the weights unless they are frozen.
    """
    at, records = start, []
    for _ in range(steps + 1):
        w, v = at.active
        z = np.sum(v * w, axis=1) / at.scale
        records.append((z, at._kernels(w, v)))
        if len(records) > steps:
            break
        pull = (np.where(np.abs(z) < _LARGEST, eta, 0.0) * (z - y) / at.scale)[:, None]
        u = at.u - (pull * v)[:, :, None] * at.x
        at = Weights(u, at.v - pull * w, at.x, at.gates if frozen else u @ at.x >= 0)
    outputs, kernels = (np.stack(part) for part in zip(*records, strict=True))
    return Run(outputs, kernels, at)


def sums(weights: Weights) -> Float[np.ndarray, "2 nets"]:
    """Sums over active units of (|x| v_i + u_i . x)^2 and of (|x| v_i - u_i . x)^2, divided by m d."""
    w, v = weights.active
    both = [np.sum((np.linalg.norm(weights.x) * v + sign * w) ** 2, axis=1) for sign in (1, -1)]
    return np.array(both) / weights.scale**2
