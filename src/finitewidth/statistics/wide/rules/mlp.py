r"""MLP: one scan over its layers, whatever their widths and hyperparameters.

$$K^{(\ell+1)} = C_b + C_W\,\langle\sigma\sigma\rangle_{K^{(\ell)}},\qquad
\Theta^{(\ell+1)} = \lambda_b + \lambda_W\,\langle\sigma\sigma\rangle
+ C_W\,\langle\sigma'\sigma'\rangle\,\Theta^{(\ell)},$$

starting from $K^{(1)} = C_b + C_W\,x\cdot x'/n_0$ and $\Theta^{(1)} = \lambda_b + \lambda_W\,x\cdot x'/n_0$.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Hyperparameters
from finitewidth.architecture.mlp import MLP
from finitewidth.statistics.wide.rules.dense import affine, cast
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, packed, unpacked
from finitewidth.statistics.wide.rules.repeat import exchanged


def every_layer(net: MLP, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    """Own moments (depth, n) above every affine layer, and the features (n, hidden, ...)."""
    first, rest = _split(cast(net.hyperparameters, below))
    neurons = Activate(net.activation)

    def step(below: Kernels, layer: Hyperparameters):
        inside, features = own(neurons, below, laws)
        above = affine(layer, inside)
        return above, (above, features)

    base = affine(first, below)
    _, (above, features) = lax.scan(step, base, rest)
    stacked = Kernels(*(jnp.concatenate([b[None], a]) for b, a in zip(base, above, strict=True)))
    return stacked, exchanged(features)


@own.register
def _(net: MLP, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    moments, features = every_layer(net, below, laws)
    return Kernels(*(m[-1] for m in moments)), features


@cross.register
def _(net: MLP, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    base, levels, above = _pairs(net, below, rows, columns, laws)
    return unpacked(lax.scan(lambda below, level: (above(below, level), None), base, levels)[0])


def every_layer_of_pairs(net: MLP, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    """Kernels (depth, rows, columns) of all pairs above every affine layer."""
    base, levels, above = _pairs(net, below, rows, columns, laws)

    def kept(below: Array, level: PyTree) -> tuple[Array, Array]:
        here = above(below, level)
        return here, here

    _, others = lax.scan(kept, base, levels)
    return unpacked(jnp.concatenate([base[None], others]))


def _pairs(
    net: MLP, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws
) -> tuple[Array, PyTree, Callable[[Array, PyTree], Array]]:
    """Packed kernels above the first layer, what the others need, and the step from one to the next."""
    first, rest = _split(cast(net.hyperparameters, below))
    neurons = Activate(net.activation)

    def above(below: Array, level: PyTree) -> Array:
        layer, features = level
        return packed(affine(layer, cross(neurons, unpacked(below), *features, laws)))

    return packed(affine(first, below)), (rest, exchanged((rows, columns))), above


def _split(layers: Hyperparameters) -> tuple[Hyperparameters, Hyperparameters]:
    """The first layer, and the stack of those that follow a nonlinearity."""
    return Hyperparameters(*(a[0] for a in layers)), Hyperparameters(*(a[1:] for a in layers))
