"""One-dimensional Gaussian quadrature that keeps its accuracy for steep and kinked functions."""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# exp(-u^2/4) is below 1e-17 here, so products of a Hermite function with the root of the
# Gaussian weight have nothing left outside.
_REACH = 12.5

# Panels shrink geometrically towards zero, where a steep activation (large variance) changes
# fastest and where most kinks sit: the innermost break resolves variances up to about 1e6.
_INNER_BREAKS = (1e-3, 4e-3, 1.6e-2, 6.4e-2, 0.25)
_NODES_PER_PANEL = 20


class Rule(NamedTuple):
    """Nodes u and weights w with sum w f(u) = E f(u), u ~ N(0, 1)."""

    nodes: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]


@functools.cache
def gaussian_rule(terms: int = 64) -> Rule:
    """Composite Gauss-Legendre rule, exact to rounding against Hermite polynomials up to `terms`.

    The Hermite function of order k oscillates with wave number sqrt(k) at most, so the outer
    panels are made narrow enough for twenty nodes to resolve it.
    """
    width = min(0.75, 12.0 / np.sqrt(max(terms, 1)))
    panels = int(np.ceil((_REACH - _INNER_BREAKS[-1]) / width))
    outer = np.linspace(_INNER_BREAKS[-1], _REACH, panels + 1)
    right = np.concatenate([[0.0], _INNER_BREAKS[:-1], outer])
    unit_nodes, unit_weights = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
    half = np.diff(right)[:, None] / 2
    middle = (right[1:] + right[:-1])[:, None] / 2
    nodes = (middle + half * unit_nodes).ravel()
    weights = (half * unit_weights).ravel()
    nodes = np.concatenate([-nodes[::-1], nodes])
    weights = np.concatenate([weights[::-1], weights])
    density = np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    return Rule(nodes, weights * density)


@functools.cache
def hermite_projector(terms: int) -> Float[np.ndarray, "nodes terms"]:
    """Matrix that turns values f(u) at the nodes of `gaussian_rule(terms)` into E[f h_k].

    h_k are the normalised probabilists' Hermite polynomials. They enter multiplied by the root of
    the Gaussian density, which keeps the three-term recursion bounded at every order.
    """
    nodes, weights = gaussian_rule(terms)
    root_density = np.exp(-(nodes**2) / 4)
    columns = np.empty((terms, nodes.size))
    columns[0] = root_density
    if terms > 1:
        columns[1] = nodes * root_density
    for k in range(1, terms - 1):
        columns[k + 1] = (nodes * columns[k] - np.sqrt(k) * columns[k - 1]) / np.sqrt(k + 1)
    return (columns * (weights / root_density)).T.copy()
