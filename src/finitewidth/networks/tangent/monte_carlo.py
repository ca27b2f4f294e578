"""Kernels of random networks by drawing networks, with their standard errors, on all devices."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, PRNGKeyArray, PyTree

from finitewidth._base.checks import check_key, check_whole
from finitewidth._base.estimate import Estimate
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.networks.models import Apply, Inputs, Model, Network, as_model, as_points, check_arguments
from finitewidth.networks.tangent.tangent_kernel import MEMORY_LIMIT, empirical_ntk


class MonteCarloKernels(NamedTuple):
    """Kernels averaged over random networks and over their outputs.

    Attributes
    ----------
    nngp
        Mean of f(x1) f(x2), (n1, n2), with its standard error.
    ntk
        Mean of the empirical NTK, (n1, n2), with its standard error.
    """

    nngp: Estimate
    ntk: Estimate


def monte_carlo_kernels(
    net: Layer | Apply,
    x1: Inputs,
    x2: Inputs | None = None,
    *,
    key: PRNGKeyArray,
    draws: int,
    init: Callable[[Array], PyTree] | None = None,
    rates: PyTree | None = None,
    at_once: int = 1,
    devices: Sequence[Any] | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> MonteCarloKernels:
    """NNGP kernel and NTK of any network, as averages over random networks of its own width.

    They hold every power of 1/width; at growing width they approach `kernels`.

    Parameters
    ----------
    net
        A network of layers, or any function of (params, x).
    x1, x2
        Inputs, first axis the points. Without `x2` the kernels of x1 with itself.
    key, draws
        Randomness, and the number of networks, at least 2.
    init
        For a function: draws its params from a key. A network of layers draws its own.
    rates
        Learning-rate tensor, as in `empirical_ntk`.
    at_once
        Networks that a device works on at a time.
    devices
        Networks are shared out over these; all of this process by default.
    memory_limit
        Bytes that the gradients of one network may take at a time.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> net = fw.MLP(hidden=(16,), activation="relu", n_out=8)
    >>> found = fw.monte_carlo_kernels(net, jnp.eye(2), key=jax.random.key(0), draws=50)
    >>> found.ntk.value.shape, bool((found.ntk.sem > 0).all())
    ((2, 2), True)
    """
    check_key(key)
    check_whole("draws", draws, least=2)
    check_whole("at_once", at_once)
    model = as_model(net)
    x1 = as_points("x1", x1, model)
    x2 = None if x2 is None else as_points("x2", x2, model)
    if isinstance(model, Network):
        if init is not None:
            raise ValueError("a network of layers draws its own parameters: leave init out.")
        init = _OwnDraw(model.layer, x1.shape[1:])
    elif init is None:
        raise ValueError("init is missing: a function that draws the params of this one from a key.")
    check_arguments(model, jax.eval_shape(init, key), x1)
    found = jax.local_devices() if devices is None else list(devices)
    per_device = -(-draws // (len(found) * at_once)) * at_once
    numbers = np.arange(len(found) * per_device).reshape(len(found), -1, at_once)
    mesh = Mesh(np.asarray(found), ("networks",))
    count, mean, squares = _moments(
        model, init, rates, x1, x2, key, numbers, numbers < draws, mesh, memory_limit
    )
    nngp, ntk = (
        _pooled(np.asarray(count), np.asarray(m), np.asarray(s)) for m, s in zip(mean, squares, strict=True)
    )
    return MonteCarloKernels(nngp, ntk)


class _OwnDraw(eqx.Module):
    """The parameters of a network of layers from a key; equal ones share a compiled program."""

    layer: Layer
    entering: Shape = eqx.field(static=True)

    def __call__(self, key: Array) -> PyTree:
        return self.layer.init(key, self.entering)


@eqx.filter_jit
def _moments(model, init, rates, x1, x2, key, numbers, counted, mesh, memory_limit):
    """Number, mean and sum of squared deviations of every device's networks, first axis the devices."""
    one_each, same = PartitionSpec("networks"), PartitionSpec()

    @partial(jax.shard_map, mesh=mesh, in_specs=(same, same, same, one_each, one_each), out_specs=one_each,
             check_vma=False)  # fmt: skip
    def device(key, x1, x2, numbers, counted):
        draw = lambda i: _kernels(model, init(jax.random.fold_in(key, i)), rates, x1, x2, memory_limit)
        size = (x1.shape[0], (x1 if x2 is None else x2).shape[0])
        zero = jnp.zeros((2, *size), x1.dtype)

        def add(state, group):
            count, mean, squares = state
            numbers, weight = group[0], group[1].astype(x1.dtype)
            kernels = jax.vmap(draw)(numbers)
            more = jnp.sum(weight)
            own = jnp.tensordot(weight, kernels, 1) / jnp.maximum(more, 1)
            spread = jnp.tensordot(weight, (kernels - own) ** 2, 1)
            total = jnp.maximum(count + more, 1)
            moved = own - mean
            squares = squares + spread + moved**2 * count * more / total
            return (count + more, mean + moved * more / total, squares), None

        start = (jnp.zeros((), x1.dtype), zero, zero)
        count, mean, squares = jax.lax.scan(add, start, (numbers[0], counted[0]))[0]
        return count[None], mean[None], squares[None]

    count, mean, squares = device(key, x1, x2, numbers, counted)
    return count, jnp.moveaxis(mean, 1, 0), jnp.moveaxis(squares, 1, 0)


def _kernels(
    model: Model, params: PyTree, rates: PyTree | None, x1: Array, x2: Array | None, memory_limit: int
) -> Array:
    """Both kernels of one network, averaged over its outputs, (2, n1, n2)."""
    left = model(params, x1)
    right = left if x2 is None else model(params, x2)
    ntk = empirical_ntk(model, params, x1, x2, rates=rates, outputs="mean", memory_limit=memory_limit)
    return jnp.stack([left @ right.T / left.shape[1], ntk])


def _pooled(count: np.ndarray, mean: np.ndarray, squares: np.ndarray) -> Estimate:
    """Mean over all networks and its standard error, from those of every device."""
    total, weight = count.sum(), count.reshape(-1, *(1,) * (mean.ndim - 1))
    overall = (weight * mean).sum(axis=0) / total
    spread = (squares + weight * (mean - overall) ** 2).sum(axis=0)
    return Estimate.of(overall, np.sqrt(spread / (total - 1) / total), total - 1)
