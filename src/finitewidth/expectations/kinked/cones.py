r"""Quadrature over Gaussian vectors $z=Lu$ for functions that are smooth wherever no $z_i$ changes its sign.

The planes $z_i=0$ all pass through the origin and cut the space of u into cones. Cut further, every cone is
spanned by as many edges as there are dimensions; inside it the integrand is smooth in the direction and in
the distance from the origin, so Gauss rules in both converge geometrically, however thin the cone and whether
or not K is singular.
"""

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from finitewidth.expectations.four_factors.axis_rules import Grid, gaussian_radius

# Variances below this share of the largest are rounding.
_SINGULAR = 1e-14
# An edge is on a plane when its distance from it is rounding.
_ON_PLANE = 1e-12
# Edges are at most about a right angle apart.
_SMALLEST_COSINE = -0.1


def thin_root(K: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m rank"]:
    """L with K = L L^T and as many columns as K has dimensions."""
    eigenvalues, vectors = np.linalg.eigh(K)
    kept = eigenvalues > _SINGULAR * eigenvalues[-1]
    return vectors[:, kept] * np.sqrt(eigenvalues[kept])


def cone_grid(root: Float[np.ndarray, "m rank"], radial: int, angular: int, tolerance: float) -> Grid:
    """Nodes and weights of the independent unit Gaussians behind z, with so many nodes per dimension."""
    rank = root.shape[1]
    edges = np.stack(cones(root))
    shares, measure = _simplex_rule(rank, angular)
    points = np.einsum("qi,cid->cqd", shares, edges)
    distance = np.linalg.norm(points, axis=-1)
    solid = np.abs(np.linalg.det(edges))[:, None] * measure / distance**rank
    directions = (points / distance[..., None]).reshape(-1, rank)
    reach = gaussian_radius(tolerance)
    unit, length = np.polynomial.legendre.leggauss(radial)
    r = reach * (unit + 1) / 2
    shell = reach * length / 2 * r ** (rank - 1) * np.exp(-(r**2) / 2) / (2 * math.pi) ** (rank / 2)
    nodes = directions[:, None, :] * r[:, None]
    return Grid(nodes.reshape(-1, rank), np.outer(solid.ravel(), shell).ravel())


def cones(root: Float[np.ndarray, "m rank"]) -> list[Float[np.ndarray, "rank rank"]]:
    """Unit edge vectors, one per row, of cones that fill space and that no plane z_i = 0 crosses."""
    size = np.linalg.norm(root, axis=1)
    normals = root[size > 0] / size[size > 0, None]
    first = _independent(normals, root.shape[1])
    rank = len(first)
    edges = np.linalg.inv(normals[first]).T
    edges = edges / np.linalg.norm(edges, axis=1, keepdims=True)
    whole = [np.array(signs)[:, None] * edges for signs in itertools.product((1.0, -1.0), repeat=rank)]
    for normal in np.delete(normals, first, axis=0):
        whole = [part for cone in whole for part in _cut(cone, normal)]
    return [part for cone in whole for part in _narrowed(cone)]


def _independent(normals: Float[np.ndarray, "m rank"], rank: int) -> list[int]:
    """So many of the planes, each as far as possible from being spanned by those before."""
    left, chosen = normals.copy(), []
    for _ in range(rank):
        chosen.append(int(np.argmax(np.sum(left**2, axis=1))))
        direction = left[chosen[-1]] / np.linalg.norm(left[chosen[-1]])
        left = left - np.outer(left @ direction, direction)
    return chosen


def _cut(cone: Float[np.ndarray, "rank rank"], normal: Float[np.ndarray, " rank"]) -> Iterator[np.ndarray]:
    """Parts on either side of a plane: as long as an edge crosses it, both halves of that edge get a part."""
    height = cone @ normal
    above, below = np.argmax(height), np.argmin(height)
    if height[above] <= _ON_PLANE or height[below] >= -_ON_PLANE:
        yield cone
        return
    crossing = height[above] * cone[below] - height[below] * cone[above]
    for part in _split(cone, int(above), int(below), crossing):
        yield from _cut(part, normal)


def _narrowed(cone: Float[np.ndarray, "rank rank"]) -> Iterator[np.ndarray]:
    cosine = cone @ cone.T
    i, j = np.unravel_index(np.argmin(cosine), cosine.shape)
    if cosine[i, j] >= _SMALLEST_COSINE:
        yield cone
        return
    for part in _split(cone, int(i), int(j), cone[i] + cone[j]):
        yield from _narrowed(part)


def _split(cone: np.ndarray, i: int, j: int, between: Float[np.ndarray, " rank"]) -> Iterator[np.ndarray]:
    for k in (i, j):
        part = cone.copy()
        part[k] = between / np.linalg.norm(between)
        yield part


@functools.cache
def _simplex_rule(vertices: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the vertices, and weights, of a Gauss rule in collapsed coordinates."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    x, w = (x + 1) / 2, w / 2
    shares, weights, rest = np.zeros((1, 0)), np.ones(1), np.ones(1)
    for left in range(vertices - 1, 0, -1):
        share = np.outer(rest, 1 - x)
        shares = np.concatenate([np.repeat(shares, nodes, axis=0), share.reshape(-1, 1)], axis=1)
        weights = np.outer(weights, w * x ** (left - 1)).ravel()
        rest = np.outer(rest, x).ravel()
    return np.concatenate([shares, rest[:, None]], axis=1), weights
