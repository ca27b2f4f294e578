"""The NNGP kernel and the neural tangent kernel of an infinitely wide network.

The rules of the layers (`finitewidth.statistics.wide.rules`) say how the kernels of one layer follow from
those of the layer below. They close on each pair of inputs once the variances of the two are known, so they
run on square tiles small enough for the cache, all layers of one tile before the next."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Complex, Float, PyTree

from finitewidth._base.checks import check_positive, check_whole
from finitewidth._base.compilation import compiled_for_long_vectors
from finitewidth._base.tracing import outside_tracing
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import activations_of, layer_shapes
from finitewidth.expectations.laws import Averages, ExactLaw, PairLaw
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs, check_same_shape
from finitewidth.statistics.wide.position_kernels import (
    Points,
    block,
    has_positions,
    laws_at,
    mean_over_positions,
    needs_pairs,
    own_kernels,
    prepare_at_positions,
    symmetric_pairs,
    tile_side,
)
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.mlp import every_layer
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, packed, unpacked
from finitewidth.statistics.wide.rules.positions import along

# A tile of complex numbers stays in the second-level cache of a core; smaller ones spend their time on
# handing work to the threads. Its rows are whole vectors of the processor: what is left over is slow.
_LEAST_TILE, _TILE, _VECTOR = 112, 208, 16
# Into how many rows of tiles a symmetric matrix is cut where inputs have positions.
_CUTS_AT_POSITIONS = 4
_STRIP = 2048
_QUANTILES = 17
_DEFAULT_TOLERANCE = {"float32": 1e-6, "float64": 1e-9}


def kernels(
    net: Layer,
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
        Inputs (points, features), or images and sequences (points, *positions, channels). Without `x2` the
        kernels of x1 with itself, exactly symmetric.
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
        check_same_shape("x1", x1, "x2", x2)
        dtype = jnp.promote_types(x1.dtype, x2.dtype)
        x1, x2 = x1.astype(dtype), x2.astype(dtype)
    laws = resolved_laws(net, [x1] if x2 is None else [x1, x2], tolerance, terms)
    found = _symmetric(net, laws, x1) if x2 is None else _rectangular(net, laws, x1, x2)
    refuse_overflow(found)
    return found


def refuse_overflow(*found: Kernels) -> None:
    """Refuse kernels that are larger than numbers of their type can be."""
    arrays = jax.tree.leaves(found)
    if any(isinstance(array, Tracer) for array in arrays):
        return
    if not all(np.isfinite(np.asarray(array)).all() for array in arrays):
        dtype = arrays[0].dtype
        more = ", or pass inputs of float64" if dtype == np.float32 else ""
        raise ValueError(
            f"the kernels leave the range of {dtype}, which ends at {np.finfo(dtype).max:.1g}: divide the "
            f"inputs by a power of ten, or lower C_b, C_W and the rates of the network{more}."
        )


def kernel_strips(
    net: Layer, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."], most: int = _STRIP
) -> Iterator[tuple[slice, Kernels]]:
    """`kernels(net, x1, x2)`, some rows at a time, by one program: which rows, and their kernels.

    The last two strips overlap.
    """
    laws, size = resolved_laws(net, [x1, x2], None, None), _tile_size(len(x1), most)
    for start in tile_starts(len(x1), size):
        rows = slice(start, start + size)
        yield rows, _rectangular(net, laws, x1[rows], x2)


def own_outputs(net: Layer, x: Float[Array, "n ..."]) -> Kernels:
    """The diagonals of `kernels(net, x)`, (n,)."""
    return _own_outputs(net, resolved_laws(net, [x], None, None), x)


@eqx.filter_jit
def _own_outputs(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> Kernels:
    return prepare(net, laws, x)[1]


def trajectory(net: Layer, x: ArrayLike) -> Kernels:
    """Diagonal kernels above every layer with parameters: `nngp` and `ntk` are (depth, points).

    Where inputs have positions, the average over them.
    """
    x = as_inputs("x", x, net)
    return _trajectory(net, default_laws(net), x)


@eqx.filter_jit
def _trajectory(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> Kernels:
    if isinstance(net, MLP):
        return every_layer(net, _own_kernels(net, x), laws)[0]
    below, levels = _own_kernels(net, x), []
    shapes = layer_shapes(net, x.shape[1:])
    asked = along(tuple(part for part, _, _ in shapes), laws_at(net, laws, x))
    for (part, entering, _), inside in zip(shapes, asked, strict=True):
        below, _ = own(part, below, inside)
        if part.has_parameters(entering):
            levels.append(mean_over_positions(below))
    if not levels:
        raise ValueError("net has no layer with parameters: it has no trajectory.")
    return Kernels(*(jnp.stack(kernel) for kernel in zip(*levels, strict=True)))


def default_laws(net: Layer, terms: int | None = None) -> PairLaws:
    """The pair laws of all activations of a network, series of one length where there is no closed form."""
    found = activations_of(net)
    return PairLaws(found, tuple(activation.law(terms) for activation in found))


def resolved_laws(
    net: Layer, inputs: list[Float[Array, "_ ..."]], tolerance: float | None, terms: int | None
) -> PairLaws:
    """The pair laws, accurate enough for the variances that these inputs reach."""
    if terms is not None:
        check_whole("terms", terms)
        return default_laws(net, terms)
    if tolerance is None:
        tolerance = _DEFAULT_TOLERANCE[inputs[0].dtype.name]
    check_positive("tolerance", tolerance)
    laws = default_laws(net)
    if has_positions(inputs[0]):
        laws = laws.at(laws.sites, jnp.array(True))
    if all(isinstance(law, ExactLaw) for law in laws.laws):
        return laws
    net, inputs = jax.tree.map(_value, (net, inputs))
    if any(isinstance(a, Tracer) for a in jax.tree.leaves((net, inputs))):
        return laws
    with outside_tracing():
        met = variances_met(net, laws, _representatives(inputs))
        resolved = [
            law.resolve(jnp.concatenate([v.ravel() for v in met[i]]), tolerance) if met[i] else law
            for i, law in enumerate(laws.laws)
        ]
    return PairLaws(laws.activations, tuple(resolved), laws.sites, laws.true)


class _Met(eqx.Module):
    """Variances that entered the neurons of one activation."""

    number: int = eqx.field(static=True)
    variance: Float[Array, "n ..."]


class _Noting(PairLaw):
    """A pair law whose features are the variances it was asked about."""

    law: PairLaw
    number: int = eqx.field(static=True)

    def moments(self, q: Float[Array, "*n"]) -> Averages:
        return self.law.moments(q)

    def features(self, q: Float[Array, " n"]) -> _Met:
        return _Met(self.number, q)

    def pair(self, rows: PyTree, columns: PyTree, k: Float[Array, "rows columns"]) -> Averages:
        features = self.law.features
        return self.law.pair(features(rows.variance), features(columns.variance), k)

    def resolve(self, q: Float[Array, "*n"], tolerance: float) -> PairLaw:
        return self.law.resolve(q, tolerance)


def variances_met(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> list[list[np.ndarray]]:
    """All variances that each activation of the network meets at these inputs."""
    noting = PairLaws(laws.activations, tuple(_Noting(law, i) for i, law in enumerate(laws.laws)))
    is_met = lambda node: isinstance(node, _Met)
    met = [node for node in jax.tree.leaves(_features(net, noting, x), is_leaf=is_met) if is_met(node)]
    return [[np.asarray(m.variance) for m in met if m.number == i] for i in range(len(laws.laws))]


@eqx.filter_jit
def _features(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> PyTree:
    return prepare(net, laws, x)[0].features


def _value(array: Array) -> Array:
    """The array itself inside `jax.grad`, where it is known; inside `jax.jit` it stays unknown."""
    return lax.stop_gradient(array) if isinstance(array, Tracer) else array


def _representatives(inputs: list[Float[Array, "_ ..."]]) -> Float[Array, "quantiles 1"]:
    """One-feature inputs that span the lengths of the given ones, the shortest and longest included.

    Of inputs with positions all of them: each position has variances of its own.
    """
    if has_positions(inputs[0]):
        return jnp.concatenate(inputs)
    lengths = [np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=1)) for x in map(np.asarray, inputs)]
    return jnp.asarray(np.quantile(np.concatenate(lengths), np.linspace(0, 1, _QUANTILES))[:, None])


def _own_kernels(net: Layer, x: Float[Array, "n ..."]) -> Kernels:
    if has_positions(x):
        return own_kernels(net, x)
    square = jnp.sum(x**2, axis=1) / x.shape[1]
    return Kernels(square, jnp.zeros_like(square))


def prepare(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> tuple[Points, Kernels]:
    """The features of every input, and the exact output diagonals."""
    if has_positions(x):
        return prepare_at_positions(net, laws, x)
    diagonal, features = own(net, _own_kernels(net, x), laws)
    return Points(x, features), diagonal


def tile(net: Layer, laws: PairLaws, rows: Points, columns: Points) -> Kernels:
    """All layers for one tile of pairs."""
    if has_positions(rows.x):
        return block(net, laws, rows, columns)
    gram = rows.x @ columns.x.T / rows.x.shape[1]
    below = Kernels(gram, jnp.zeros_like(gram))
    return cross(net, below, rows.features, columns.features, laws)


def take(points: Points, start: Array | int, size: int) -> Points:
    """`size` consecutive inputs from `start`."""
    return jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, start, size), points)


def tile_starts(n: int, size: int) -> list[int]:
    """Where tiles of one size start so that they cover n points, the last two overlapping."""
    return [min(i, n - size) for i in range(0, n, size)]


def _tile_size(n: int, largest: int) -> int:
    """The least size that covers n points with as few tiles as the largest size does."""
    return -(-n // -(-n // largest))


def _in_vectors(n: int, size: int) -> int:
    """A size of tiles for n points, made up to whole vectors."""
    return min(n, -(-size // _VECTOR) * _VECTOR)


def _symmetric_size(n: int) -> int:
    """The size of the square tiles on and above the diagonal of an (n, n) matrix that cover least."""
    sizes = [n] if n <= _TILE else []
    sizes += [size for size in range(_TILE, _LEAST_TILE - 1, -_VECTOR) if size < n]
    area = lambda size: sum(range(-(-n // size) + 1)) * size**2
    return min(sizes, key=area)


def kernel_blocks(
    net: Layer, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."]
) -> tuple[Kernels, Kernels, Kernels]:
    """Kernels (n1, n1), (n2, n1) and (n2, n2), as blocks of one matrix: one program instead of three."""
    return blocks_by_laws(net, resolved_laws(net, [x1, x2], None, None), x1, x2)


@compiled_for_long_vectors
def blocks_by_laws(
    net: Layer, laws: PairLaws, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."]
) -> tuple[Kernels, Kernels, Kernels]:
    """The same with pair laws that are known."""
    whole, n = _all_pairs(net, laws, jnp.concatenate([x1, x2])), len(x1)
    block = lambda rows, columns: jax.tree.map(lambda kernel: kernel[rows, columns], whole)
    first, second = slice(None, n), slice(n, None)
    return block(first, first), block(second, first), block(second, second)


@compiled_for_long_vectors
def _symmetric(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> Kernels:
    return _all_pairs(net, laws, x)


def _all_pairs(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> Kernels:
    points, diagonal = prepare(net, laws, x)
    n = x.shape[0]
    if has_positions(x) and needs_pairs(net):
        return symmetric_pairs(net, laws, points, diagonal)
    if has_positions(x):
        size = _tile_size(n, min(tile_side(x), max(1, n // _CUTS_AT_POSITIONS)))
    else:
        size = _symmetric_size(n)
    starts = tile_starts(n, size)
    upper = np.array([(a, b) for i, a in enumerate(starts) for b in starts[i:]])

    @jax.checkpoint
    def one_tile(corner):
        rows, columns = take(points, corner[0], size), take(points, corner[1], size)
        exact = lax.dynamic_slice_in_dim(packed(diagonal), corner[0], size)
        block = packed(tile(net, laws, rows, columns))
        on_diagonal = corner[0] == corner[1]
        chosen = lax.cond(on_diagonal, _symmetrised, lambda block, _: block, block, exact)
        return unpacked(chosen)

    def write(whole: Kernels, corner):
        block = one_tile(corner)
        place = lambda w, b: lax.dynamic_update_slice(w, b, (corner[0], corner[1]))
        mirror = lambda w, b: lax.dynamic_update_slice(w, b.T, (corner[1], corner[0]))
        return jax.tree.map(mirror, jax.tree.map(place, whole, block), block), None

    return lax.scan(write, _blank(n, n, x.dtype), jnp.asarray(upper))[0]


@compiled_for_long_vectors
def _rectangular(
    net: Layer, laws: PairLaws, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."]
) -> Kernels:
    (rows, _), (columns, _) = prepare(net, laws, x1), prepare(net, laws, x2)
    if has_positions(x1):
        return large_tile(net, laws, rows, columns)
    return _cut(net, laws, rows, columns, _TILE)


def large_tile(net: Layer, laws: PairLaws, rows: Points, columns: Points) -> Kernels:
    """All layers for a tile of any size; kernels at positions are never in memory for all of its pairs."""
    if has_positions(rows.x) and not needs_pairs(net):
        return _cut(net, laws, rows, columns, tile_side(rows.x))
    return tile(net, laws, rows, columns)


def _cut(net: Layer, laws: PairLaws, rows: Points, columns: Points, largest: int) -> Kernels:
    """All pairs of two sets of inputs, in tiles of at most so many rows and columns."""
    n1, n2 = len(rows.x), len(columns.x)
    height, width = _tile_size(n1, largest), _tile_size(n2, largest)
    if not has_positions(rows.x):
        width = _in_vectors(n2, width)
    corners = np.array([(a, b) for a in tile_starts(n1, height) for b in tile_starts(n2, width)])

    @jax.checkpoint
    def one_tile(corner):
        return tile(net, laws, take(rows, corner[0], height), take(columns, corner[1], width))

    def write(whole: Kernels, corner):
        place = lambda w, b: lax.dynamic_update_slice(w, b, (corner[0], corner[1]))
        return jax.tree.map(place, whole, one_tile(corner)), None

    return lax.scan(write, _blank(n1, n2, rows.x.dtype), jnp.asarray(corners))[0]


def _symmetrised(block: Complex[Array, "n n"], diagonal: Complex[Array, " n"]) -> Complex[Array, "n n"]:
    """The upper triangle, its mirror image, and the given diagonal: rounding may differ across it."""
    row, column = jnp.arange(len(diagonal))[:, None], jnp.arange(len(diagonal))
    return jnp.where(row < column, block, jnp.where(row > column, block.T, diagonal))


def _blank(n1: int, n2: int, dtype: jnp.dtype) -> Kernels:
    """Two matrices to be overwritten; equal ones would be made as one and then copied."""
    return Kernels(jnp.zeros((n1, n2), dtype), jnp.ones((n1, n2), dtype))
