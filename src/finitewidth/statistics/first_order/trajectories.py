r"""Neurons of a residual network, followed through its layers.

The skip keeps a neuron's identity. Given all averages over neurons, the neurons are independent Gaussian
trajectories, $\mathrm{Cov}(z^\ell_1,z^m_2)=\alpha_{m\ell}K^m_{12}$ for $\ell\ge m$, with $\alpha_{m\ell}$ the
product of the skips from layer m to layer $\ell$. So a neuron at two layers and n inputs is one Gaussian
vector with 2n components, and its averages are those of one layer at 2n inputs.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.arrays import Matrix
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.residual_stack import ResidualStack
from finitewidth.expectations.four_factors.four_point import FourPoint
from finitewidth.expectations.kinked.kinks import evaluate
from finitewidth.expectations.two_layers import plane_rule
from finitewidth.statistics.first_order.fluctuations import Averages
from finitewidth.statistics.first_order.neuron_averages import four_factors, neuron_averages
from finitewidth.statistics.first_order.one_input import one_input_averages
from finitewidth.statistics.wide.rules.dense import recursion

_PAIRS_AT_ONCE = 64


class StreamLayer(NamedTuple):
    """Kernels of the stream at one layer, and averages over a neuron there."""

    K: Matrix
    Theta: Matrix
    averages: Averages


class LayerPairs(NamedTuple):
    r"""Averages of four factors, two at a later and two at an earlier layer, for some pairs of layers.

    Attributes
    ----------
    later, earlier
        Numbers of the layers.
    values, slopes
        $\langle\sigma_1\sigma_2\,\sigma_3\sigma_4\rangle$ and the same of four slopes; labels 1 and 2 are at
        the later layer.
    slopes_values, values_slopes
        $\langle\sigma'_1\sigma'_2\,\sigma_3\sigma_4\rangle$ and
        $\langle\sigma_1\sigma_2\,\sigma'_3\sigma'_4\rangle$.
    products
        $\langle\sigma_1\sigma'_2\,\sigma_3\sigma'_4\rangle$.
    """

    later: Int[np.ndarray, " pairs"]
    earlier: Int[np.ndarray, " pairs"]
    values: Float[np.ndarray, "pairs n n n n"]
    slopes: Float[np.ndarray, "pairs n n n n"]
    slopes_values: Float[np.ndarray, "pairs n n n n"]
    values_slopes: Float[np.ndarray, "pairs n n n n"]
    products: Float[np.ndarray, "pairs n n n n"]


def stream_layers(net: ResidualStack, gram: Matrix, tolerance: float) -> list[StreamLayer]:
    """Every hidden layer, from the first on."""
    K, Theta = recursion(net.first, gram, np.zeros_like(gram))
    layers = [StreamLayer(K, Theta, _averages(net.activation, K, tolerance, passed_on=False))]
    for block in net.blocks:
        pair = layers[-1].averages.pair
        branch = recursion(block.dense, pair[0, 0], pair[1, 1] * Theta)
        K, Theta = (
            block.alpha**2 * stream + block.beta**2 * added
            for stream, added in zip((K, Theta), branch, strict=True)
        )
        layers.append(StreamLayer(K, Theta, _averages(net.activation, K, tolerance, passed_on=True)))
    return layers


def memories(net: ResidualStack) -> Float[np.ndarray, "layers layers"]:
    """How much of a neuron's preactivation at the layer of the column is left at that of the row."""
    kept = np.eye(len(net.blocks) + 1)
    for l, block in enumerate(net.blocks):
        kept[l + 1, : l + 1] = block.alpha * kept[l, : l + 1]
    return kept


def layer_pairs(net: ResidualStack, layers: list[StreamLayer], tolerance: float) -> Iterator[LayerPairs]:
    """The averages of all pairs of layers, each pair once."""
    kept = memories(net)
    if len(layers[0].K) == 1:
        yield from _of_one_input(net.activation, [layer.K.item() for layer in layers], kept)
        return
    for later, earlier in np.argwhere(np.tri(len(layers))).tolist():
        if later == earlier:
            yield _split(later, earlier, layers[later].averages.four, slice(None), slice(None))
            continue
        cross = kept[later, earlier] * layers[earlier].K
        joint = np.block([[layers[later].K, cross], [cross.T, layers[earlier].K]])
        n = len(cross)
        yield _split(later, earlier, four_factors(net.activation, joint, tolerance), slice(n), slice(n, None))


def _averages(activation: Activation, K: Matrix, tolerance: float, passed_on: bool) -> Averages:
    if len(K) == 1:
        return one_input_averages(activation, K.item())
    return neuron_averages(activation, K, tolerance, passed_on)


def _split(later: int, earlier: int, four: FourPoint, L: slice, E: slice) -> LayerPairs:
    """Of the averages over points of both layers, those with two at L and two at E."""
    mixed = four[1, 1, 0, 0]
    return LayerPairs(
        *(np.array([layer]) for layer in (later, earlier)),
        *(
            each[None]
            for each in (
                four[0, 0, 0, 0][L, L, E, E],
                four[1, 1, 1, 1][L, L, E, E],
                mixed[L, L, E, E],
                mixed[E, E, L, L].transpose(2, 3, 0, 1),
                np.einsum("bdac->abcd", mixed[L, E, L, E]),
            )
        ),
    )


def _of_one_input(
    activation: Activation, K: list[float], kept: Float[np.ndarray, "layers layers"]
) -> Iterator[LayerPairs]:
    """Averages of two numbers, many pairs of layers at once."""
    variances = np.array(K)
    all_later, all_earlier = np.tril_indices(len(K))
    for start in range(0, len(all_later), _PAIRS_AT_ONCE):
        later, earlier = (index[start : start + _PAIRS_AT_ONCE] for index in (all_later, all_earlier))
        std = np.sqrt(variances)
        rule = plane_rule(kept[later, earlier] * std[earlier] / std[later])
        (s, ds), (t, dt) = (
            [np.asarray(each) for each in evaluate(activation.function, jnp.asarray(std[at, None] * nodes))]
            for at, nodes in ((later, rule.first), (earlier, rule.second))
        )
        products = ((s * t) ** 2, (ds * dt) ** 2, (ds * t) ** 2, (s * dt) ** 2, s * ds * t * dt)
        found = (np.sum(rule.weights * p, axis=1).reshape(-1, 1, 1, 1, 1) for p in products)
        yield LayerPairs(later, earlier, *found)
