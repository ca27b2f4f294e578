"""One hidden layer with kinks: its points, their first-layer kernels, and what is refused."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from finitewidth.architecture.mlp import MLP
from finitewidth.expectations.kinked.kinks import Kink
from finitewidth.prediction.methods.kinks.slopes import Slope
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.rules.dense import recursion

# Preactivations are multiples of each other when 1 - rho^2 is below this.
_PARALLEL = 1e-10


class OutputKernels(NamedTuple):
    """NNGP kernel and NTK of the outputs, training points first."""

    K: Float[np.ndarray, "points points"]
    Theta: Float[np.ndarray, "points points"]

    @classmethod
    def of(cls, problem: TrainingProblem) -> "OutputKernels":
        """Put the three blocks of a problem together, in double precision."""
        blocks = [
            [problem.train, problem.test_train],
            [problem.test_train, problem.test],
        ]
        matrices = []
        for name in ("nngp", "ntk"):
            (a, b), (_, d) = [[np.asarray(getattr(k, name), float) for k in row] for row in blocks]
            matrices.append(np.block([[a, b.T], [b, d]]))
        return cls(*matrices)


class Setting(NamedTuple):
    """What the law needs to know of a network with one hidden layer and of its data.

    Attributes
    ----------
    slope
        s', with its kinks.
    K1, Theta1
        Kernels of the first layer, different training points first, then all test points.
    outputs
        Kernels of the outputs, all training points first.
    y
        Targets.
    point_of
        For every training point, which of the different ones it is.
    twin
        For every test point the equal training point, or -1.
    C_W
        Variance of the rescaled output weights a.
    """

    slope: Slope
    K1: Float[np.ndarray, "points points"]
    Theta1: Float[np.ndarray, "points points"]
    outputs: OutputKernels
    y: Float[np.ndarray, "train out"]
    point_of: Int[np.ndarray, " train"]
    twin: Int[np.ndarray, " test"]
    C_W: float

    @classmethod
    def of(cls, net: MLP, problem: TrainingProblem) -> "Setting":
        """Check that every kink is met by itself."""
        x_train, x_test = (np.asarray(x, float) for x in (problem.x_train, problem.x_test))
        different, point_of = np.unique(x_train, axis=0, return_inverse=True)
        equal = (x_test[:, None] == different[None]).all(axis=-1)
        twin = np.where(equal.any(axis=1), equal.argmax(axis=1), -1)
        x = np.concatenate([different, x_test])
        first, last = net.layers[0], net.layers[-1]
        gram = x @ x.T / x.shape[1]
        K1, Theta1 = (np.asarray(k) for k in recursion(first, gram, np.zeros_like(gram)))
        slope = Slope.of(net.activation)
        refuse_no_kinks(slope, net)
        new = np.flatnonzero(twin < 0) + len(different)
        _refuse_common_kinks(slope.kinks, K1, len(different), new)
        y = np.asarray(problem.y, float)
        outputs = OutputKernels.of(problem)
        return cls(slope, K1, Theta1, outputs, y, point_of.ravel(), twin, float(last.C_W))

    @property
    def windows(self) -> int:
        """Number of different training points."""
        return int(self.point_of.max()) + 1

    @property
    def half_cube(self) -> float:
        """E|a|^3 / 2 of the rescaled output weights."""
        return half_cube(self.C_W)

    def density(self, point: int, kink: Kink) -> float:
        """Density of the preactivation at a point, at a kink."""
        return density(float(self.K1[point, point]), kink)

    def gathered(self, e: Float[np.ndarray, "m train *rest"]) -> Float[np.ndarray, "m windows *rest"]:
        """Sums over equal training points."""
        member = np.arange(self.windows)[:, None] == self.point_of
        return np.moveaxis(np.tensordot(member.astype(float), e, axes=(1, 1)), 0, 1)


def half_cube(variance: float) -> float:
    """E|a|^3 / 2 of a Gaussian."""
    return variance**1.5 * math.sqrt(2 / math.pi)


def density(variance: float, kink: Kink) -> float:
    """Density of a Gaussian of this variance at a kink."""
    return math.exp(-(kink.at**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def refuse_no_kinks(slope: Slope, net: MLP) -> None:
    """Smooth activations have no law of this order."""
    if not slope.kinks:
        raise ValueError(
            f'order="1/2" is for activations whose slope jumps, and {net.activation.name!r} has no kink at '
            f"{', '.join(f'{p:g}' for p in net.activation.kink_places)}: use order=1, or say where the kinks "
            "are: Activation(function, kink_places=...)."
        )


def _refuse_common_kinks(kinks: tuple[Kink, ...], K1: np.ndarray, train: int, new: np.ndarray) -> None:
    """Two kinks must not be met by the same neurons."""
    q = np.diag(K1)
    points = np.concatenate([np.arange(train), new])
    for a in range(train):
        parallel = q[a] * q[points] - K1[a, points] ** 2 <= _PARALLEL * q[a] * q[points]
        for b in points[parallel & (points != a)]:
            factor = K1[a, b] / q[a]
            near = lambda x, y: abs(x - y) <= 1e-6 * max(1.0, abs(x))
            if any(near(factor * k.at, l.at) for k in kinks for l in kinks):
                other = f"x_train (row {b} of the different ones)" if b < train else f"x_test[{b - train}]"
                raise ValueError(
                    f"row {a} of the different inputs in x_train and {other} have parallel preactivations, "
                    "whose kinks are met by the same neurons: that common window is not derived; give the "
                    "network biases (C_b > 0) or leave one of the two out."
                )
