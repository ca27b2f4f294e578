"""Steepest descent under a norm for every layer, as an Optax transformation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from finitewidth._base.checks import check_positive
from finitewidth._base.linalg.dual_norms import DualPair, check_norm, dual_pair
from finitewidth._base.linalg.polar import as_matrix, newton_schulz

# How the polar factor of a spectral step is found.
ORTHOGONALISERS = ("svd", "newton-schulz")


def layer_norms(params: PyTree, matrix: str = "spectral", other: str = "linf") -> PyTree:
    """A tree of names for `steepest_descent`: one norm for matrices, another for every other array.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from finitewidth.course.optimiser_geometry.networks import layer_norms
    >>> layer_norms({"weight": jnp.ones((3, 2)), "bias": jnp.ones(3)})
    {'bias': 'linf', 'weight': 'spectral'}
    """
    check_norm(matrix)
    check_norm(other)
    return jax.tree.map(lambda leaf: matrix if jnp.ndim(leaf) == 2 else other, params)


def steepest_descent(
    learning_rate: float | int,
    norm: str | PyTree | Callable[[PyTree], PyTree] = layer_norms,
    *,
    dual_factor: bool = False,
    across: str = "sum",
    orthogonalise: str = "svd",
) -> optax.GradientTransformation:
    r"""Steps $-\eta\,s_l$ or, with the dual norm as a factor, $-\eta\,|g_l|_*\,s_l$ in every layer l.

    $s_l$ is where $\langle g_l,s\rangle$ is largest among arrays of norm one.

    Parameters
    ----------
    learning_rate
        $\eta$.
    norm
        "l2", "linf" (sign descent), "l1" (the largest entry alone) or "spectral" (Muon without momentum); a
        tree of these names with one per leaf of the parameters; or a function of the parameters that
        returns such a tree, by default `layer_norms`: spectral for matrices, "linf" for everything else.
    dual_factor
        Whether a step has the factor $|g_l|_*$, as the minimum of $\langle g,d\rangle+|d|^2/(2\eta)$ has.
        Sign descent and Muon leave it out, and so does the default: every layer then moves by $\eta$ in its
        norm.
    across
        Which factor: "sum" takes the layer's own dual norm, "max" the sum of all of them, as for
        $|d|=\max_l|d_l|$.
    orthogonalise
        The polar factor of a spectral step: by "svd", or by five "newton-schulz" steps as in Muon.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from finitewidth.course.optimiser_geometry.networks import steepest_descent
    >>> optimiser = steepest_descent(0.1, "spectral")
    >>> g = jnp.array([[3.0, 0.0], [0.0, -0.5]])
    >>> jnp.diag(optimiser.update(g, optimiser.init(g))[0]).round(6)
    Array([-0.1,  0.1], dtype=float64)
    """
    check_positive("learning_rate", learning_rate)
    if across not in ("sum", "max"):
        raise ValueError(f"across must be 'sum' or 'max', got {across!r}.")
    if orthogonalise not in ORTHOGONALISERS:
        raise ValueError(
            f"orthogonalise must be one of {', '.join(map(repr, ORTHOGONALISERS))}, got {orthogonalise!r}."
        )

    def init(params: PyTree) -> optax.OptState:
        _check_leaves(params, _as_tree(norm, params))
        return optax.EmptyState()

    def update(
        updates: PyTree, state: optax.OptState, params: PyTree | None = None
    ) -> tuple[PyTree, optax.OptState]:
        leaves, structure = jax.tree.flatten(updates)
        names = jax.tree.leaves(_as_tree(norm, updates))
        pairs = [_pair(leaf, name, orthogonalise) for leaf, name in zip(leaves, names, strict=True)]
        duals = [pair.dual_norm for pair in pairs]
        total = sum(duals)
        factors = [(total if across == "max" else dual) if dual_factor else 1.0 for dual in duals]
        steps = [-learning_rate * f * pair.direction for f, pair in zip(factors, pairs, strict=True)]
        return jax.tree.unflatten(structure, steps), state

    return optax.GradientTransformation(init, update)


def _pair(gradient: Array, norm: str, orthogonalise: str) -> DualPair:
    if norm == "spectral" and orthogonalise == "newton-schulz":
        direction = newton_schulz(gradient)
        return DualPair(direction, jnp.sum(gradient * direction))
    return dual_pair(gradient, norm)


def _as_tree(norm: str | PyTree | Callable[[PyTree], PyTree], params: PyTree) -> PyTree:
    """One name per leaf of the parameters."""
    names = norm(params) if callable(norm) else norm
    if isinstance(names, str):
        return jax.tree.map(lambda _: names, params)
    if jax.tree.structure(names) != jax.tree.structure(params):
        raise ValueError(
            f"norm is a tree {jax.tree.structure(names)} that does not fit params, "
            f"{jax.tree.structure(params)}: give one name, or one per leaf."
        )
    return names


def _check_leaves(params: PyTree, names: PyTree) -> None:
    pairs = zip(jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(names), strict=True)
    for (path, leaf), name in pairs:
        check_norm(name)
        if name == "spectral":
            as_matrix(f"params{jax.tree_util.keystr(path)}", leaf)
