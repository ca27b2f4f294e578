r"""The neural tangent kernel of one real network.

$H_{i_1i_2;12} = \sum_\mu \lambda_\mu\,\partial_\mu z_{i_1;1}\,\partial_\mu z_{i_2;2}$, the sum running over
all parameters with the learning-rate tensor $\lambda_\mu$. A stack of dense layers
takes layer Gram products; any other network or function of (params, x) takes Jacobians of a few inputs at a
time.
"""

import functools
import operator
from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import is_dense_stack
from finitewidth.networks.models import (
    Apply,
    Inputs,
    Model,
    Network,
    as_model,
    as_points,
    check_arguments,
    rate_tree,
)
from finitewidth.networks.tangent import jacobians, layer_grams

MEMORY_LIMIT = 2**30

Pairs = Literal["all", "diagonal", "mean"]


class Side(NamedTuple):
    """One side of a kernel: a network and its inputs."""

    params: PyTree
    x: Array


def empirical_ntk(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x1: Inputs,
    x2: Inputs | None = None,
    *,
    rates: PyTree | None = None,
    outputs: Pairs = "all",
    memory_limit: int = MEMORY_LIMIT,
) -> Float[Array, "*out n1 n2"]:
    r"""The empirical NTK $H_{i_1i_2;12}$.

    Parameters
    ----------
    apply_or_net
        A network, or any function of (params, x) that treats every input on its own, such as the
        `apply` of a Flax model.
    params
        Parameters: any tree of arrays that the function takes.
    x1, x2
        Inputs, first axis the points. Without `x2` the kernel of x1 with itself.
    rates
        Learning-rate tensor: one number, or a tree with one number or array per leaf of params. By
        default the one of the network with its parametrisation, and 1 for any other function.
    outputs
        "all" pairs of outputs; the "diagonal", each output with itself; or the "mean" over this diagonal.
        The last two leave the other pairs out: less work by the number of outputs, and a smaller result.
    memory_limit
        Bytes that gradients may take at a time; the result itself comes on top.

    Returns
    -------
    Array of shape (out, out, n1, n2)
        The block ``[i, j]`` is the kernel matrix between outputs i and j. Of the diagonal (out, n1, n2), of
        its mean (n1, n2).

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.MLP(hidden=(32, 32), activation="tanh")
    >>> x = jax.random.normal(jax.random.key(1), (5, 3))
    >>> fw.empirical_ntk(net, net.init(jax.random.key(0), 3), x).shape
    (1, 1, 5, 5)
    """
    if outputs not in _SUMS:
        raise ValueError(f"outputs must be one of {', '.join(_SUMS)}, got {outputs!r}.")
    model, rates, left, right = _prepare(apply_or_net, params, x1, x2, rates)
    return _tiled(_SUMS[outputs], model, rates, left, right, memory_limit)


def empirical_ntk_by_group(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x1: Inputs,
    x2: Inputs | None = None,
    *,
    rates: PyTree | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> PyTree[Float[Array, "out out n1 n2"]]:
    """The parts of the empirical NTK, one kernel per leaf of params; their sum is the NTK.

    Arguments as in `empirical_ntk`. For `fw.MLP` the parts are `Affine(weight, bias)` of every layer.
    """
    model, rates, left, right = _prepare(apply_or_net, params, x1, x2, rates)
    return _tiled(_parts, model, rates, left, right, memory_limit)


def cross_kernel(
    model: Model, rates: PyTree, left: Side, right: Side, memory_limit: int = MEMORY_LIMIT
) -> Float[Array, "out out n1 n2"]:
    r"""$\sum_\mu\lambda_\mu\,\partial_\mu z_{i_1}(\theta_1; x_1)\,\partial_\mu z_{i_2}(\theta_2; x_2)$.

    Each side has its own parameters, so that derivatives can act on one side only.
    """
    return _tiled(_SUMS["all"], model, rates, left, right, memory_limit)


def _prepare(
    apply_or_net: Layer | Apply | Model, params: PyTree, x1: Inputs, x2: Inputs | None, rates: PyTree | None
) -> tuple[Model, PyTree | None, Side, Side | None]:
    model = as_model(apply_or_net)
    left = Side(params, as_points("x1", x1, model))
    check_arguments(model, params, left.x)
    right = None if x2 is None else Side(params, as_points("x2", x2, model))
    if right is not None and right.x.shape[1:] != left.x.shape[1:]:
        raise ValueError(
            f"x1 has points of shape {left.x.shape[1:]} and x2 of {right.x.shape[1:]}; they must agree."
        )
    return model, rates, left, right


def _structured(model: Model, rates: PyTree | None) -> bool:
    """Whether layer Gram products apply: dense layers with one rate per weight matrix and bias vector."""
    dense = isinstance(model, Network) and is_dense_stack(model.layer)
    return dense and all(jnp.ndim(rate) == 0 for rate in jax.tree.leaves(rates))


@eqx.filter_jit
def _gradients(model: Model, structured: bool, side: Side) -> PyTree:
    if structured and isinstance(model, Network):
        return layer_grams.gradient_factors(model.layer, side.params, side.x)
    return jacobians.jacobian(model, side.params, side.x)


@eqx.filter_jit
def _parts(model: Model, rates: PyTree, left: PyTree, right: PyTree | None, outputs: Pairs = "all") -> PyTree:
    right = left if right is None else right
    if isinstance(left, layer_grams.Factors) and isinstance(right, layer_grams.Factors):
        assert isinstance(model, Network)
        return layer_grams.layer_kernels(model.layer, rates, left, right, outputs)
    return jacobians.leaf_kernels(rates, left, right, outputs)


def _sum_of_parts(outputs: Pairs) -> Callable[..., Array]:
    @eqx.filter_jit
    def total(model: Model, rates: PyTree, left: PyTree, right: PyTree | None) -> Array:
        return functools.reduce(operator.add, jax.tree.leaves(_parts(model, rates, left, right, outputs)))

    return total


_SUMS: dict[str, Callable[..., Array]] = {
    "all": _sum_of_parts("all"),
    "diagonal": _sum_of_parts("diagonal"),
    "mean": _sum_of_parts("mean"),
}


@eqx.filter_jit
def _at_once(
    combine: Callable[..., PyTree], model: Model, rates: PyTree | None, left: Side, right: Side | None
) -> PyTree:
    """The kernel from the gradients of all inputs."""
    structured = _structured(model, rates)
    full = rate_tree(model, left.params, left.x.shape[1:], rates, "gradient")
    columns = None if right is None else _gradients(model, structured, right)
    return combine(model, full, _gradients(model, structured, left), columns)


def _tiled(
    combine: Callable[..., PyTree],
    model: Model,
    rates: PyTree | None,
    left: Side,
    right: Side | None,
    memory_limit: int,
) -> PyTree:
    """Tiles of the kernel, each from the gradients of so few inputs that they fit the memory limit."""
    structured = _structured(model, rates)
    held = _points_held(model, structured, left, memory_limit)
    if len(left.x) + (0 if right is None else len(right.x)) <= held:
        return _at_once(combine, model, rates, left, right)
    full = rate_tree(model, left.params, left.x.shape[1:], rates, "gradient")
    # Rows are computed once and columns once per block of rows, so rows get the larger share.
    column_sets = _split(left if right is None else right, max(1, held // 4))
    rows = []
    for row in _split(left, held - max(1, held // 4)):
        row_gradients = _gradients(model, structured, row)
        tiles = [combine(model, full, row_gradients, _gradients(model, structured, c)) for c in column_sets]
        rows.append(jax.tree.map(lambda *t: jnp.concatenate(t, axis=-1), *tiles))
    return jax.tree.map(lambda *t: jnp.concatenate(t, axis=-2), *rows)


def _points_held(model: Model, structured: bool, side: Side, memory_limit: int) -> int:
    """How many inputs' gradients fit the memory limit."""
    if structured and isinstance(model, Network):
        each = layer_grams.bytes_per_point(model.layer, side.x.shape[1], side.x.dtype.itemsize)
    else:
        each = jacobians.bytes_per_point(model, side.params, side.x)
    if memory_limit < 2 * each:
        raise ValueError(
            f"memory_limit={memory_limit} bytes is too small: "
            f"the gradients of two inputs take {2 * each} bytes."
        )
    return memory_limit // each


def _split(side: Side, size: int) -> list[Side]:
    count = -(-len(side.x) // size)
    return [Side(side.params, block) for block in jnp.array_split(side.x, count)]
