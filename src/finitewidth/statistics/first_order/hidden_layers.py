"""Kernels of every layer of an infinitely wide network, with the neuron averages between them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Elementwise
from finitewidth.architecture.dense import Hyperparameters
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.expectations.four_factors.derivative_moments import NeuronMoments
from finitewidth.expectations.kinked.bent_moments import neuron_moments
from finitewidth.statistics.wide.rules.dense import recursion


class HiddenLayer(NamedTuple):
    """One hidden layer: kernels of its preactivations, averages over its neurons, the affine layer above.

    `ratio` is its width over that of the hidden layer below; the first one has nothing below it to correct.
    """

    K: Float[np.ndarray, "p p"]
    Theta: Float[np.ndarray, "p p"]
    averages: NeuronMoments
    above: Hyperparameters
    width: int
    ratio: float


class LayerKernels(NamedTuple):
    """All hidden layers, the kernels of the outputs, and the activation."""

    hidden: tuple[HiddenLayer, ...]
    K: Float[np.ndarray, "p p"]
    Theta: Float[np.ndarray, "p p"]
    function: Elementwise


def layer_kernels(net: Layer, x: Float[np.ndarray, "p d"], tolerance: float = 1e-10) -> LayerKernels:
    """The recursion of K and Theta in double precision, keeping every layer."""
    net = dense_stack(net)
    first, *rest = net.layers
    gram = x @ x.T / x.shape[1]
    K, Theta = recursion(first, gram, np.zeros_like(gram))
    hidden = []
    for l, above in enumerate(rest):
        averages = neuron_moments(net.activation.function, K, tolerance)
        ratio = net.hidden[l] / net.hidden[l - 1] if l else 0.0
        hidden.append(HiddenLayer(K, Theta, averages, above, net.hidden[l], ratio))
        K, Theta = recursion(above, averages.pair(0, 0), averages.pair(1, 1) * Theta)
    return LayerKernels(tuple(hidden), K, Theta, net.activation.function)
