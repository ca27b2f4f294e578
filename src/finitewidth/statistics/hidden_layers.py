"""Kernels of every layer of an infinitely wide network, with the neuron averages between them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.architecture import MLP
from finitewidth.expectations.derivative_moments import DerivativeMoments


class AffineHyperparameters(NamedTuple):
    """Of one layer of weights and biases."""

    C_b: float
    C_W: float
    lambda_b: float
    lambda_W: float


class HiddenLayer(NamedTuple):
    """One hidden layer: kernels of its preactivations, averages over its neurons, the affine layer above.

    `ratio` is its width over that of the hidden layer below; the first one has nothing below it to correct.
    """

    K: Float[np.ndarray, "p p"]
    Theta: Float[np.ndarray, "p p"]
    averages: DerivativeMoments
    above: AffineHyperparameters
    width: int
    ratio: float


class LayerKernels(NamedTuple):
    """All hidden layers, and the kernels of the outputs."""

    hidden: tuple[HiddenLayer, ...]
    K: Float[np.ndarray, "p p"]
    Theta: Float[np.ndarray, "p p"]


def layer_kernels(net: MLP, x: Float[np.ndarray, "p d"], tolerance: float = 1e-10) -> LayerKernels:
    """The recursion of K and Theta in double precision, keeping every layer."""
    affine = [
        AffineHyperparameters(
            *(float(values[l]) for values in (net.C_b, net.C_W, net.lambda_b, net.lambda_W))
        )
        for l in range(net.depth)
    ]
    gram = x @ x.T / x.shape[1]
    K, Theta = affine[0].C_b + affine[0].C_W * gram, affine[0].lambda_b + affine[0].lambda_W * gram
    hidden = []
    for l, above in enumerate(affine[1:]):
        averages = DerivativeMoments(net.activation.function, K, tolerance)
        ratio = net.hidden[l] / net.hidden[l - 1] if l else 0.0
        hidden.append(HiddenLayer(K, Theta, averages, above, net.hidden[l], ratio))
        value, slope = averages.pair(0, 0), averages.pair(1, 1)
        K = above.C_b + above.C_W * value
        Theta = above.lambda_b + above.lambda_W * value + above.C_W * slope * Theta
    return LayerKernels(tuple(hidden), K, Theta)
