r"""The NNGP kernel and the neural tangent kernel of an infinitely wide network.

$$K^{(\ell+1)} = C_b + C_W\,\langle\sigma\sigma\rangle_{K^{(\ell)}},\qquad
\Theta^{(\ell+1)} = \lambda_b + \lambda_W\,\langle\sigma\sigma\rangle
+ C_W\,\langle\sigma'\sigma'\rangle\,\Theta^{(\ell)},$$

starting from $K^{(1)} = C_b + C_W\,x\cdot x'/n_0$ and $\Theta^{(1)} = \lambda_b + \lambda_W\,x\cdot x'/n_0$.

The recursion closes on each pair of inputs once the variances of the two are known, so it runs on
square tiles small enough for the cache, all layers of one tile before the next.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer, eval_context
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float, PyTree

from finitewidth.architecture import MLP
from finitewidth.checks import check_positive, check_whole
from finitewidth.expectations.laws import ExactLaw, PairLaw
from finitewidth.statistics.inputs import ArrayLike, as_inputs

# Two tiles of complex numbers fill the second-level cache of two cores; smaller ones spend their time
# on handing work to the threads. Below the least size a symmetric matrix is not cut any further.
_TILE = 512
_LEAST_TILE = 128
_SYMMETRIC_CUTS = 4
_QUANTILES = 17
_DEFAULT_TOLERANCE = {"float32": 1e-6, "float64": 1e-9}


class Kernels(NamedTuple):
    """Kernel matrices between two sets of inputs, each (n1, n2)."""

    nngp: Float[Array, "*shape"]
    ntk: Float[Array, "*shape"]


class Layers(NamedTuple):
    """Hyperparameters of a stack of affine layers, first axis the layer."""

    C_b: Float[Array, " layers"]
    C_W: Float[Array, " layers"]
    lambda_b: Float[Array, " layers"]
    lambda_W: Float[Array, " layers"]


class Points(NamedTuple):
    """A set of inputs with everything the recursion needs to know about each of them alone."""

    x: Float[Array, "n d"]
    features: PyTree[Float[Array, "hidden n ..."]]


def kernels(
    net: MLP,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    tolerance: float | None = None,
    terms: int | None = None,
) -> Kernels:
    """NNGP kernel and NTK of an infinitely wide network.

    Parameters
    ----------
    net
        The network; its widths do not matter here.
    x1, x2
        Inputs (points, features). Without `x2` the kernels of x1 with itself, exactly symmetric.
        float32 inputs give float32 kernels, everything else float64.
    tolerance
        Relative accuracy of each layer's averages for an activation without closed form;
        1e-9 (float64) or 1e-6 (float32) by default.
    terms
        Length of the Hermite series instead of a tolerance. Inside `jax.jit` the variances are not
        known, so a tolerance cannot be met there: give `terms` or accept the default of 64.

    Returns
    -------
    Kernels
        `nngp` and `ntk`, each (n1, n2).

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> x = jax.random.normal(jax.random.key(0), (5, 3))
    >>> nngp, ntk = fw.kernels(fw.MLP(hidden=(64,) * 3, activation="gelu"), x)
    >>> ntk.shape
    (5, 5)
    """
    x1 = as_inputs("x1", x1, net)
    if x2 is not None:
        x2 = as_inputs("x2", x2, net)
        if x1.shape[1] != x2.shape[1]:
            raise ValueError(f"x1 has {x1.shape[1]} features and x2 has {x2.shape[1]}; they must agree.")
        dtype = jnp.promote_types(x1.dtype, x2.dtype)
        x1, x2 = x1.astype(dtype), x2.astype(dtype)
    law = resolved_law(net, [x1] if x2 is None else [x1, x2], tolerance, terms)
    layers = layer_stack(net, x1.dtype)
    if x2 is None:
        return _symmetric(layers, law, x1)
    return _rectangular(layers, law, x1, x2)


def trajectory(net: MLP, x: ArrayLike) -> Kernels:
    """Diagonal kernels of every layer, for every input: `nngp` and `ntk` are (depth, points)."""
    x = as_inputs("x", x, net)
    return _diagonals(layer_stack(net, x.dtype), net.activation.law(), x)


def layer_stack(net: MLP, dtype: DTypeLike) -> Layers:
    """The network's hyperparameters in the precision of the inputs."""
    return Layers(*(a.astype(dtype) for a in (net.C_b, net.C_W, net.lambda_b, net.lambda_W)))


def resolved_law(
    net: MLP, inputs: list[Float[Array, "_ d"]], tolerance: float | None, terms: int | None
) -> PairLaw:
    """The activation's pair law, long enough for the variances that these inputs reach."""
    if terms is not None:
        check_whole("terms", terms)
        return net.activation.law(terms)
    if tolerance is None:
        tolerance = _DEFAULT_TOLERANCE[inputs[0].dtype.name]
    check_positive("tolerance", tolerance)
    law = net.activation.law()
    if isinstance(law, ExactLaw):
        return law
    net, inputs = jax.tree.map(_value, (net, inputs))
    if any(isinstance(a, Tracer) for a in jax.tree.leaves((net, inputs))):
        return law
    with eval_context():
        trajectories = _diagonals(layer_stack(net, jnp.float64), law, _representatives(inputs))
        return law.resolve(trajectories.nngp[:-1], tolerance)


def _value(array: Array) -> Array:
    """The array itself inside `jax.grad`, where it is known; inside `jax.jit` it stays unknown."""
    return lax.stop_gradient(array) if isinstance(array, Tracer) else array


def _representatives(inputs: list[Float[Array, "_ d"]]) -> Float[Array, "quantiles 1"]:
    """One-feature inputs that span the lengths of the given ones, the shortest and longest included."""
    lengths = [np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=1)) for x in map(np.asarray, inputs)]
    return jnp.asarray(np.quantile(np.concatenate(lengths), np.linspace(0, 1, _QUANTILES))[:, None])


@eqx.filter_jit
def _diagonals(layers: Layers, law: PairLaw, x: Float[Array, "n d"]) -> Kernels:
    """K and Theta of every input with itself, layer by layer: (depth, n)."""
    square = jnp.sum(x**2, axis=1) / x.shape[1]

    def step(below: Kernels, layer: Layers):
        value, slope = law.moments(below.nngp)
        above = _affine(layer, value, slope, below.ntk)
        return above, above

    first, rest = _split(layers)
    base = _base(first, square)
    _, above = lax.scan(step, base, rest)
    return Kernels(*(jnp.concatenate([b[None], a]) for b, a in zip(base, above, strict=True)))


def prepare(layers: Layers, law: PairLaw, x: Float[Array, "n d"]) -> tuple[Points, Kernels]:
    """Per-input features of every hidden layer, and the exact output diagonals."""
    diagonal = _diagonals(layers, law, x)
    features = lax.map(law.features, diagonal.nngp[:-1])
    return Points(x, features), Kernels(*(d[-1] for d in diagonal))


def tile(layers: Layers, law: PairLaw, rows: Points, columns: Points) -> Kernels:
    """All layers of the recursion for one tile of pairs."""
    return _unpack(_packed_tile(layers, law, rows, columns))


def _packed_tile(
    layers: Layers, law: PairLaw, rows: Points, columns: Points
) -> Complex[Array, "rows columns"]:
    gram = rows.x @ columns.x.T / rows.x.shape[1]
    first, rest = _split(layers)

    def step(packed, level):
        layer, row_features, column_features = level
        below = _unpack(packed)
        value, slope = law.pair(row_features, column_features, below.nngp)
        return _pack(_affine(layer, value, slope, below.ntk)), None

    return lax.scan(step, _pack(_base(first, gram)), (rest, rows.features, columns.features))[0]


def _pack(pair: Kernels) -> Complex[Array, "*s"]:
    """Both kernels as one complex array.

    XLA computes each real array in a loop of its own, and would work out what the two kernels share
    twice; one complex array is one loop.
    """
    return lax.complex(pair.nngp, pair.ntk)


def _unpack(packed: Complex[Array, "*s"]) -> Kernels:
    return Kernels(lax.real(packed), lax.imag(packed))


def take(points: Points, start: Array | int, size: int) -> Points:
    """`size` consecutive inputs from `start`."""
    window = functools.partial(lax.dynamic_slice_in_dim, start_index=start, slice_size=size)
    return Points(window(points.x), jax.tree.map(functools.partial(window, axis=1), points.features))


def tile_starts(n: int, size: int) -> list[int]:
    """Where tiles of one size start so that they cover n points, the last two overlapping."""
    return [min(i, n - size) for i in range(0, n, size)]


def _tile_size(n: int, largest: int = _TILE) -> int:
    """The least size that covers n points with as few tiles as the largest size does."""
    return -(-n // -(-n // largest))


@eqx.filter_jit
def _symmetric(layers: Layers, law: PairLaw, x: Float[Array, "n d"]) -> Kernels:
    points, diagonal = prepare(layers, law, x)
    n = x.shape[0]
    size = _tile_size(n, min(_TILE, max(_LEAST_TILE, n // _SYMMETRIC_CUTS)))
    starts = tile_starts(n, size)
    upper = np.array([(a, b) for i, a in enumerate(starts) for b in starts[i:]])

    @jax.checkpoint
    def one_tile(corner):
        rows, columns = take(points, corner[0], size), take(points, corner[1], size)
        exact = lax.dynamic_slice_in_dim(_pack(diagonal), corner[0], size)
        block = _packed_tile(layers, law, rows, columns)
        on_diagonal = corner[0] == corner[1]
        return _unpack(lax.cond(on_diagonal, _symmetrised, lambda block, _: block, block, exact))

    def write(whole: Kernels, corner):
        block = one_tile(corner)
        place = lambda w, b: lax.dynamic_update_slice(w, b, (corner[0], corner[1]))
        mirror = lambda w, b: lax.dynamic_update_slice(w, b.T, (corner[1], corner[0]))
        return jax.tree.map(mirror, jax.tree.map(place, whole, block), block), None

    return lax.scan(write, _blank(n, n, x.dtype), jnp.asarray(upper))[0]


@eqx.filter_jit
def _rectangular(layers: Layers, law: PairLaw, x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"]) -> Kernels:
    (rows, _), (columns, _) = prepare(layers, law, x1), prepare(layers, law, x2)
    n1, n2 = x1.shape[0], x2.shape[0]
    height, width = _tile_size(n1), _tile_size(n2)
    corners = np.array([(a, b) for a in tile_starts(n1, height) for b in tile_starts(n2, width)])

    @jax.checkpoint
    def one_tile(corner):
        return tile(layers, law, take(rows, corner[0], height), take(columns, corner[1], width))

    def write(whole: Kernels, corner):
        place = lambda w, b: lax.dynamic_update_slice(w, b, (corner[0], corner[1]))
        return jax.tree.map(place, whole, one_tile(corner)), None

    return lax.scan(write, _blank(n1, n2, x1.dtype), jnp.asarray(corners))[0]


def _symmetrised(block: Complex[Array, "n n"], diagonal: Complex[Array, " n"]) -> Complex[Array, "n n"]:
    """The upper triangle, its mirror image, and the given diagonal: rounding may differ across it."""
    row, column = jnp.arange(len(diagonal))[:, None], jnp.arange(len(diagonal))
    return jnp.where(row < column, block, jnp.where(row > column, block.T, diagonal))


def _blank(n1: int, n2: int, dtype: jnp.dtype) -> Kernels:
    """Two matrices to be overwritten; equal ones would be made as one and then copied."""
    return Kernels(jnp.zeros((n1, n2), dtype), jnp.ones((n1, n2), dtype))


def _split(layers: Layers) -> tuple[Layers, Layers]:
    """The first layer, and the stack of those that follow a nonlinearity."""
    return Layers(*(a[0] for a in layers)), Layers(*(a[1:] for a in layers))


def _base(layer: Layers, gram: Float[Array, "*s"]) -> Kernels:
    return Kernels(layer.C_b + layer.C_W * gram, layer.lambda_b + layer.lambda_W * gram)


def _affine(layer: Layers, value, slope, ntk_below) -> Kernels:
    """One affine layer on top of the averages of the neurons below."""
    return Kernels(
        layer.C_b + layer.C_W * value,
        layer.lambda_b + layer.lambda_W * value + layer.C_W * slope * ntk_below,
    )
