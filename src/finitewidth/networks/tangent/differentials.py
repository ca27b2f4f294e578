r"""The dNTK and the ddNTK of one real network: how its tangent kernel moves in training.

With $v_{i;a} = \lambda\,\nabla z_{i;a}$, the direction in which one output pushes the parameters,

$$\begin{aligned}
dH_{i_0i_1i_2;012} &= \partial^2 z_{i_0;0}[v_1, v_2],\\
I_{i_0i_1i_2i_3;0123} &= \partial^3 z_{i_0;0}[v_1, v_2, v_3],\\
J_{i_0i_1i_2i_3;0123} &= \partial^2 z_{i_0;0}[\cdot, v_2]\,\lambda\,\partial^2 z_{i_1;1}[\cdot, v_3].
\end{aligned}$$

All three are derivatives of the tangent kernel in which each side has parameters of its own, along the
directions $v$: of its left side (dH once, I twice) or of both sides (J). Nothing larger than a tangent
vector per direction is kept.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from finitewidth.architecture.layer import Layer
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments, rate_tree
from finitewidth.networks.tangent.tangent_kernel import Side, cross_kernel

Vectors = Sequence[Array]


class DDNTK(NamedTuple):
    """Both second differentials: `I` bends one output three times, `J` bends two outputs once each."""

    I: Float[Array, "..."]
    J: Float[Array, "..."]


def empirical_dntk(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x0: Inputs,
    x1: Inputs | None = None,
    x2: Inputs | None = None,
    *,
    vectors: Vectors = (),
    rates: PyTree | None = None,
) -> Float[Array, "..."]:
    r"""The dNTK $dH_{i_0i_1i_2;012}$, the first change of the tangent kernel.

    Parameters
    ----------
    apply_or_net, params, rates
        As in `empirical_ntk`.
    x0, x1, x2
        Inputs of the three legs; x1 and x2 are x0 unless given. The first leg is the output that is
        differentiated twice.
    vectors
        Arrays (points, out) that contract the last legs: none gives the full tensor, one
        $\sum_2 dH_{012}u_2$, two $\sum_{12} dH_{012}u_1u_2$ with the vectors in the order of the legs.

    Returns
    -------
    Array
        Output axes of the free legs, then their point axes: (out, out, out, n0, n1, n2),
        (out, out, n0, n1) or (out, n0).
    """
    legs = _legs(apply_or_net, params, (x0, x1, x2), vectors, rates)
    if len(vectors) == 2:
        w1, w2 = (_push(legs, params, x, u) for x, u in zip(legs.x[1:], vectors, strict=True))
        return _differential(lambda p: legs.model(p, legs.x[0]), w1, w2)(params).T
    return _over_legs(_kernel_slope, legs, params, vectors)


def empirical_ddntk(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x0: Inputs,
    x1: Inputs | None = None,
    x2: Inputs | None = None,
    x3: Inputs | None = None,
    *,
    vectors: Vectors = (),
    rates: PyTree | None = None,
) -> DDNTK:
    """Both ddNTKs I and J, the second changes of the tangent kernel.

    Parameters
    ----------
    apply_or_net, params, rates
        As in `empirical_ntk`.
    x0, x1, x2, x3
        Inputs of the four legs; all are x0 unless given. In J the legs 0 and 1 are the outputs that
        are differentiated twice, towards legs 2 and 3.
    vectors
        Arrays (points, out) that contract the last legs, at most three, in the order of the legs.

    Returns
    -------
    DDNTK
        `I` and `J`, each with the output axes of the free legs, then their point axes.
    """
    legs = _legs(apply_or_net, params, (x0, x1, x2, x3), vectors, rates)
    if len(vectors) == 3:
        return _fully_contracted(legs, params, vectors)
    return _over_legs(_kernel_curvatures, legs, params, vectors)


class _Legs(NamedTuple):
    model: Model
    rates: PyTree
    x: tuple[Array, ...]


def _legs(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    inputs: tuple[Inputs, *tuple[Inputs | None, ...]],
    vectors: Vectors,
    rates: PyTree | None,
) -> _Legs:
    model = as_model(apply_or_net)
    x0 = as_points("x0", inputs[0], model)
    check_arguments(model, params, x0)
    others = (x0 if xk is None else as_points(f"x{k}", xk, model) for k, xk in enumerate(inputs[1:], start=1))
    x = (x0, *others)
    if len(vectors) >= len(x):
        raise ValueError(f"{len(vectors)} vectors for {len(x)} legs: leave the first leg free.")
    n_out = jax.eval_shape(model, params, x0).shape[1]
    for k, vector in enumerate(vectors, start=len(x) - len(vectors)):
        if jnp.shape(vector) != (len(x[k]), n_out):
            raise ValueError(
                f"the vector of leg {k} has shape {jnp.shape(vector)}; it must be {(len(x[k]), n_out)}."
            )
    return _Legs(model, rate_tree(model, params, x0.shape[1:], rates, "gradient"), x)


def _push(legs: _Legs, params: PyTree, x: Array, vector: Float[Array, "n out"]) -> PyTree:
    r"""$\sum_a u_a v_a$: the direction in which the outputs, weighted by u, push the parameters."""
    z, pull_back = jax.vjp(lambda p: legs.model(p, x), params)
    return jax.tree.map(lambda rate, g: rate * g, legs.rates, pull_back(jnp.asarray(vector, z.dtype))[0])


def _differential(function: Callable[[PyTree], Array], *directions: PyTree) -> Callable[[PyTree], Array]:
    """The derivative of a function along each of the directions in turn."""
    for w in directions:
        function = _slope(function, w)
    return function


def _slope(function: Callable[[PyTree], Array], w: PyTree) -> Callable[[PyTree], Array]:
    return lambda params: jax.jvp(function, (params,), (w,))[1]


def _kernel(legs: _Legs, left: PyTree, right: PyTree) -> Float[Array, "out out n0 n1"]:
    return cross_kernel(legs.model, legs.rates, Side(left, legs.x[0]), Side(right, legs.x[1]))


def _kernel_slope(legs: _Legs, params: PyTree, w2: PyTree) -> Float[Array, "out out n0 n1"]:
    return _differential(lambda p: _kernel(legs, p, params), w2)(params)


def _kernel_curvatures(legs: _Legs, params: PyTree, w2: PyTree, w3: PyTree) -> DDNTK:
    both_sides = _differential(lambda q: _differential(lambda p: _kernel(legs, p, q), w2)(params), w3)
    return DDNTK(I=_differential(lambda p: _kernel(legs, p, params), w2, w3)(params), J=both_sides(params))


@eqx.filter_jit
def _over_legs(along: Callable[..., PyTree], legs: _Legs, params: PyTree, vectors: Vectors) -> PyTree:
    """`along` for the directions of legs 2 onwards: all of a free leg, one of a contracted leg."""
    free = legs.x[2 : len(legs.x) - len(vectors)]
    contracted = [_push(legs, params, x, u) for x, u in zip(legs.x[2 + len(free) :], vectors, strict=True)]

    def sweep(remaining: tuple[Array, ...], chosen: list[PyTree]) -> PyTree:
        if not remaining:
            return along(legs, params, *chosen, *contracted)
        x = remaining[0]
        outputs = jax.eval_shape(legs.model, params, x)
        n_out = outputs.shape[1]
        basis = jnp.eye(n_out * len(x), dtype=outputs.dtype).reshape(-1, len(x), n_out)
        swept = lax.map(lambda u: sweep(remaining[1:], [*chosen, _push(legs, params, x, u)]), basis)
        return jax.tree.map(lambda t: _place(t, n_out, len(x)), swept)

    return sweep(free, [])


def _place(swept: Array, n_out: int, n: int) -> Array:
    """Split the leading axis (point, output) and put its parts where leg 2 belongs."""
    split = swept.reshape(n, n_out, *swept.shape[1:])
    legs = swept.ndim // 2
    kept = [*range(2, 2 + legs), *range(2 + legs, 2 + 2 * legs)]
    return split.transpose(*kept[:2], 1, *kept[2:legs], *kept[legs : legs + 2], 0, *kept[legs + 2 :])


def _fully_contracted(legs: _Legs, params: PyTree, vectors: Vectors) -> DDNTK:
    w1, w2, w3 = (_push(legs, params, x, u) for x, u in zip(legs.x[1:], vectors, strict=True))

    def outputs(p: PyTree) -> Array:
        return legs.model(p, legs.x[0])

    def bent(p: PyTree) -> Array:
        return jnp.sum(vectors[0] * _slope(lambda q: legs.model(q, legs.x[1]), w3)(p))

    other = jax.tree.map(lambda rate, g: rate * g, legs.rates, jax.grad(bent)(params))
    return DDNTK(
        I=_differential(outputs, w1, w2, w3)(params).T, J=_differential(outputs, w2, other)(params).T
    )
