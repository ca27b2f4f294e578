r"""Two hidden layers and one training point: each layer has its window.

In the first layer the backpropagated signal, of variance $b_{11}$ with
$b_{DE}=C_{W,2}C_{W,3}\langle s'_Ds'_E\rangle_2$, takes the place of the output weight a. In the second layer
a neuron is also driven by all others, through the weights below that they share: by
$\xi\sim N(0,\Theta_{1,11}^2C_{W,2}\langle s'_1s'_1\rangle_1b_{11})$, independent of a. Its displacements are
$-(\xi+\alpha\,\Theta_{2,11}a)$ times the impulse, with the slope $\alpha$ of either side; they keep their
ratio, and only the angle of $(a,\xi)$ has to be integrated over.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.mlp import MLP
from finitewidth.expectations.kinked.kinks import Kink
from finitewidth.prediction.methods.kinks.quadrature import Coefficient, of_one_point
from finitewidth.prediction.methods.kinks.schedule import Schedule, schedule
from finitewidth.prediction.methods.kinks.setting import OutputKernels, density, half_cube, refuse_no_kinks
from finitewidth.prediction.methods.kinks.slopes import Slope, patterns
from finitewidth.prediction.methods.kinks.window_map import Paths, window_integrals
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.kernels import default_laws
from finitewidth.statistics.wide.rules.dense import recursion

_ANGLES = 800
# Without a ridge both velocities keep their ratio throughout, so that intervals of flow may be long.
_GROWTH, _GROWTH_WITH_RIDGE = 0.2, 0.02
_SINGLE_STEPS = 60
_SHORTEST = 1e-3


class _Layer(NamedTuple):
    """Kernels of one hidden layer's preactivations, and <s' s'> of its neurons."""

    K: Float[np.ndarray, "points points"]
    Theta: Float[np.ndarray, "points points"]
    slopes: Float[np.ndarray, "points points"]


def two_layers(
    net: MLP,
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    ridge: float,
    M: Float[np.ndarray, "test train"],
) -> Coefficient:
    """The coefficient of one over the square root of the second layer's width."""
    slope = Slope.of(net.activation)
    refuse_no_kinks(slope, net)
    outputs = OutputKernels.of(problem)
    first, second = _layers(net, problem)
    b = float(net.layers[1].C_W * net.layers[2].C_W) * second.slopes
    growth = _GROWTH_WITH_RIDGE if ridge else _GROWTH
    cut = schedule(outputs.Theta[:1, :1], algorithm, ridge, single_steps=_SINGLE_STEPS, growth=growth)
    ratio = net.hidden[1] / net.hidden[0]
    k = np.zeros(len(M))
    for kink in slope.kinks:
        lower = _first_window(first, b, slope, kink, cut)
        upper = _second_window(first, second, b, net, slope, kink, cut)
        for scale, (on_train, on_test) in ((math.sqrt(ratio), lower), (1.0, upper)):
            k += scale * (on_test - outputs.Theta[1:, 0] * (cut.answer[:, 0] @ on_train))
    K = outputs.K
    rest = K[1:, 0] - M[:, 0] * K[0, 0]
    return of_one_point(k, rest, float(problem.y[0, 0]), float(K[0, 0]))


def _layers(net: MLP, problem: TrainingProblem) -> tuple[_Layer, _Layer]:
    x = np.concatenate([problem.x_train, problem.x_test]).astype(float)
    if (x[1:] == x[0]).all(axis=1).any():
        raise ValueError("x_test holds the training point, which two hidden layers are not derived for.")
    gram = x @ x.T / x.shape[1]
    K, Theta = gram, np.zeros_like(gram)
    (law,) = default_laws(net, 1024).laws
    found = []
    for layer in net.layers[:2]:
        K, Theta = (np.asarray(part) for part in recursion(layer, K, Theta))
        q = jnp.asarray(np.diag(K))
        features = law.features(q)
        values, slopes = (np.array(part) for part in law.pair(features, features, jnp.asarray(K)))
        own = law.moments(q)
        np.fill_diagonal(values, np.asarray(own.value))
        np.fill_diagonal(slopes, np.asarray(own.slope))
        found.append(_Layer(K, Theta, slopes))
        K, Theta = values, slopes * Theta
    return found[0], found[1]


def _first_window(
    layer: _Layer,
    b: Float[np.ndarray, "points points"],
    slope: Slope,
    kink: Kink,
    cut: Schedule,
) -> tuple[np.ndarray, np.ndarray]:
    """What the window of the first layer adds on the training point, at all nodes, and at the test points."""
    Theta = layer.Theta
    signs = Theta[0, 0] * np.array([1.0, -1.0])
    A, B = _integrals(kink.left * signs, kink.right * signs, kink, cut)
    A, B = A[:, 0] - A[:, 1], B[:, 0] - B[:, 1]
    size = half_cube(float(b[0, 0])) * density(float(layer.K[0, 0]), kink)
    slopes = _test_slopes(slope, layer, kink)
    on_test = size * b[0, 1:] / b[0, 0] * Theta[1:, 0] / Theta[0, 0] * slopes * A[-1]
    return size * B, on_test


def _second_window(
    below: _Layer,
    layer: _Layer,
    b: Float[np.ndarray, "points points"],
    net: MLP,
    slope: Slope,
    kink: Kink,
    cut: Schedule,
) -> tuple[np.ndarray, np.ndarray]:
    """The same for the second layer, whose neurons are also driven by the others."""
    Theta, C_W, C_a = layer.Theta, float(net.layers[1].C_W), float(net.layers[2].C_W)
    drive = below.Theta[0] * C_W * below.slopes[0] * b[0]
    variance = net.hidden[1] / net.hidden[0] * below.Theta[0, 0] * drive[0]
    kappa = drive[1:] / drive[0]
    angle = 2 * math.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES
    # The third absolute moment of the radius, with the weight of one angle.
    weight = 3 * math.sqrt(math.pi / 2) / _ANGLES
    a, xi = math.sqrt(C_a) * np.cos(angle), math.sqrt(variance) * np.sin(angle)
    A, B = _integrals(xi + kink.left * Theta[0, 0] * a, xi + kink.right * Theta[0, 0] * a, kink, cut)
    size = weight * density(float(layer.K[0, 0]), kink)
    slopes = _test_slopes(slope, layer, kink)
    own, others = A[-1] @ a / Theta[0, 0], A[-1] @ xi / Theta[0, 0]
    on_test = size * (Theta[1:, 0] * slopes * own + kappa * others)
    on_train = size * (B @ a + A @ xi / Theta[0, 0])
    return on_train, on_test


def _test_slopes(slope: Slope, layer: _Layer, kink: Kink) -> Float[np.ndarray, " test"]:
    points = list(range(1, len(layer.K)))
    return patterns(slope, layer.K, 0, kink, [], points).test[0]


def _integrals(left: np.ndarray, right: np.ndarray, kink: Kink, cut: Schedule):
    """A and B, (nodes, paths), for velocities that are these multiples of minus a unit residual."""
    impulse = -cut.impulse[:, :1]
    paths = np.ones(len(left))
    return window_integrals(
        Paths(
            impulse * left,
            impulse * right,
            kink.left * paths,
            kink.right * paths,
            cut.decay,
            cut.step,
            cut.share,
        ),
        cut.every_node,
        _SHORTEST,
    )
