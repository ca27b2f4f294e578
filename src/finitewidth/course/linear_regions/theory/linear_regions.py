r"""How many linear regions a network can have, and how many breakpoints random networks have on a line.

On a line $x(t)$ every neuron of a random network is, around a point, an affine function $\alpha t+\beta$. Its
weights may change sign without changing their law, so given everything else the gates of a layer are fair
coins, and the coefficients of the neurons of layer $\ell$ are Gaussian with a covariance $G_\ell$ that obeys

$$G_{\ell+1}=\begin{pmatrix}0&0\\0&C_b\end{pmatrix}+\frac{C_W}{n_\ell}\sum_{j=1}^{n_\ell}s_j^2v_jv_j^T,\qquad
v_j\sim N(0,G_\ell),$$

with slopes $s_j$ of the activation, right or left of its kink, by tosses of a coin. A Gaussian affine
function has a zero between two points with probability $\arccos(\rho)/\pi$, where $\rho$ is the correlation
of its values there. So the mean number of changes of the pattern is
$\sum_\ell n_\ell E[\arccos(\rho_\ell)/\pi]$ at every width. At infinite width the sum is its mean,
$C_W\langle s^2\rangle G_\ell$.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth.architecture.layer import Layer, as_sizes
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack
from finitewidth.expectations.kinked.piecewise_linear import Slopes, slopes_of
from finitewidth.statistics.wide.inputs import check_described


def hyperplane_cells(hyperplanes: int, dimensions: int, *, central: bool = False) -> int:
    r"""Cells of hyperplanes in general position (Zaslavsky): $\sum_{i\le d}\binom ni$.

    `central` hyperplanes all go through the origin, as neurons without biases do, and make
    $2\sum_{i<d}\binom{n-1}i$.

    Examples
    --------
    >>> from finitewidth.course.linear_regions.theory import hyperplane_cells
    >>> hyperplane_cells(6, 2), hyperplane_cells(6, 2, central=True)
    (22, 12)
    """
    check_whole("hyperplanes", hyperplanes, 0)
    check_whole("dimensions", dimensions)
    if central:
        return 2 * sum(math.comb(hyperplanes - 1, i) for i in range(dimensions)) if hyperplanes else 1
    return sum(math.comb(hyperplanes, i) for i in range(dimensions + 1))


def most_regions(hidden: Sequence[int], n_in: int) -> int:
    r"""No ReLU network of these widths has more regions: $\prod_\ell\sum_{i\le d_\ell}\binom{n_\ell}i$.

    What enters layer $\ell$ lies, for one region, in an affine space of at most
    $d_\ell=\min(n_0,\dots,n_{\ell-1})$ dimensions, which the layer cuts with $n_\ell$ hyperplanes.
    """
    widths = (*as_sizes("n_in", [n_in]), *as_sizes("hidden", hidden))
    return math.prod(hyperplane_cells(n, min(widths[: l + 1])) for l, n in enumerate(widths[1:]))


def reachable_regions(hidden: Sequence[int], n_in: int) -> int:
    r"""Some ReLU network of these widths has so many regions (Montúfar and others, 2014).

    Every layer but the last folds each of the $n_0$ coordinates $\lfloor n_\ell/n_0\rfloor$ times; the last
    one cuts what is folded: $\prod_{\ell<L}\lfloor n_\ell/n_0\rfloor^{n_0}\sum_{i\le n_0}\binom{n_L}i$.
    """
    (n_in,), hidden = as_sizes("n_in", [n_in]), as_sizes("hidden", hidden)
    if not hidden:
        return 1
    if min(hidden) < n_in:
        raise ValueError(f"hidden={hidden} has a layer of fewer than n_in={n_in} neurons: it cannot fold.")
    return math.prod((n // n_in) ** n_in for n in hidden[:-1]) * hyperplane_cells(hidden[-1], n_in)


def sawtooth_pieces(folds: int, *, whole_line: bool = False) -> int:
    r"""Pieces of the tent map composed with itself: $2^L$ on [0, 1], and $2^L+2$ on the whole line.

    The line has the two rays on which the outermost ReLU is shut; without it a single tent has 3 pieces.
    """
    check_whole("folds", folds)
    return 2**folds + 2 * whole_line


def wide_breakpoints(
    net: Layer, start: Any, end: Any, *, whole: bool = False
) -> Float[np.ndarray, " layers"]:
    r"""Mean number of breakpoints of each hidden layer on a segment, at infinite width.

    For one input the zeros of a neuron of layer $\ell$ have a Cauchy density of scale $\sqrt{B_\ell/V_\ell}$,
    $G_\ell=\mathrm{diag}(V_\ell,B_\ell)$. On the whole line there is one breakpoint per neuron.

    Parameters
    ----------
    net
        Dense layers with an activation that is linear on either side of zero.
    start, end
        Two inputs (n_in,).
    whole
        The whole line through them.
    """
    net, slopes, first, rays = _problem(net, start, end, whole)
    G, found = first, []
    for l, n in enumerate(net.hidden):
        found.append(n * float(_crossings(G, rays)))
        G = _layer_up(net, l, 0.5 * (slopes.left**2 + slopes.right**2) * G)
    return np.array(found)


def expected_breakpoints(
    net: Layer, start: Any, end: Any, *, whole: bool = False, key: PRNGKeyArray, draws: int = 4096
) -> Estimate:
    r"""Mean number of breakpoints of each hidden layer on a segment, exact at every width.

    What is averaged over `draws` is the random matrix $G_\ell$, two by two; no network is drawn.

    Parameters
    ----------
    net, start, end, whole
        As for `wide_breakpoints`.
    key, draws
        Of the random matrices.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.course.linear_regions.theory import expected_breakpoints
    >>> net = fw.MLP(hidden=(4, 4), activation="relu", C_b=0.5, C_W=2.0)
    >>> expected_breakpoints(net, [-1.0], [2.0], key=jax.random.key(0)).value.round(1).tolist()
    [3.1, 2.6]
    """
    check_key(key)
    check_whole("draws", draws, 2)
    net, slopes, first, rays = _problem(net, start, end, whole)
    G, found = jnp.broadcast_to(first, (draws, 2, 2)), []
    for l, n in enumerate(net.hidden):
        found.append(n * _crossings(G, rays))
        G = _layer_up(net, l, _random_sum(jax.random.fold_in(key, l), G, n, *slopes))
    return sample_mean(np.asarray(jnp.stack(found, axis=1)))


def line_breakpoints(hidden: Sequence[int]) -> float:
    r"""Mean number of breakpoints of a random ReLU network on a whole line, exact at every width.

    A neuron of layer $\ell$ has one unless all gates of a layer below are shut:
    $\sum_\ell n_\ell\prod_{i<\ell}(1-2^{-n_i})$. The number of neurons at infinite width.
    """
    total, open_below = 0.0, 1.0
    for n in as_sizes("hidden", hidden):
        total += n * open_below
        open_below *= 1 - 2.0**-n
    return total


def _problem(net: Layer, start: Any, end: Any, whole: bool) -> tuple[MLP, Slopes, Array, Array]:
    """The network, its slopes, the covariance of its first layer, and both ends as (t, 1)."""
    check_described(net)
    net = dense_stack(net)
    slopes = slopes_of(net.activation.function)
    if slopes is None or slopes.left == slopes.right:
        raise ValueError(
            f"activation {net.activation.name!r} does not bend at zero with straight sides; breakpoints are "
            "known for 'relu', 'leaky_relu' and 'abs'."
        )
    x, step = np.asarray(start, float), np.asarray(end, float) - np.asarray(start, float)
    if x.ndim != 1 or np.shape(end) != x.shape or not step.any() or not np.isfinite([x, step]).all():
        raise ValueError(f"start and end must be two different inputs (n_in,), got {start!r} and {end!r}.")
    line = np.stack([step, x])
    G = float(net.C_W[0]) / len(x) * (line @ line.T) + np.diag([0.0, float(net.C_b[0])])
    rays = np.array([[-1.0, 0.0], [1.0, 0.0]] if whole else [[0.0, 1.0], [1.0, 1.0]])
    return net, slopes, jnp.asarray(G), jnp.asarray(rays)


def _layer_up(net: MLP, l: int, mean_square: Float[Array, "*draws 2 2"]) -> Float[Array, "*draws 2 2"]:
    return net.C_W[l + 1] * mean_square + jnp.diag(jnp.array([0.0, 1.0])) * net.C_b[l + 1]


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _random_sum(
    key: PRNGKeyArray, G: Float[Array, "draws 2 2"], n: int, left: float, right: float
) -> Float[Array, "draws 2 2"]:
    """The mean of s^2 v v^T over n neurons, for every G."""
    neurons, coins = jax.random.split(key)
    v = jax.random.normal(neurons, (len(G), n, 2)) @ jnp.swapaxes(_root(G), 1, 2)
    s = jnp.where(jax.random.bernoulli(coins, shape=(len(G), n)), right, left)
    return jnp.einsum("dn,dni,dnj->dij", s**2, v, v) / n


@jax.jit
def _crossings(G: Float[Array, "*draws 2 2"], rays: Float[Array, "2 2"]) -> Float[Array, "*draws"]:
    """Probability that alpha t + beta has a zero between the ends: the angle between them, in units of pi."""
    u = jnp.einsum("...ij,ej->...ei", jnp.swapaxes(_root(G), -1, -2), rays)
    cross = u[..., 0, 0] * u[..., 1, 1] - u[..., 0, 1] * u[..., 1, 0]
    return jnp.arctan2(jnp.abs(cross), jnp.sum(u[..., 0, :] * u[..., 1, :], axis=-1)) / jnp.pi


def _root(G: Float[Array, "*draws 2 2"]) -> Float[Array, "*draws 2 2"]:
    """R with R R^T = G, lower triangular; also of singular matrices, such as zero."""
    alpha, both, beta = G[..., 0, 0], G[..., 0, 1], G[..., 1, 1]
    first = jnp.sqrt(alpha)
    shared = jnp.where(alpha > 0, both / jnp.where(alpha > 0, first, 1.0), 0.0)
    rest = jnp.sqrt(jnp.maximum(beta - shared**2, 0.0))
    rows = [jnp.stack([first, jnp.zeros_like(first)], -1), jnp.stack([shared, rest], -1)]
    return jnp.stack(rows, axis=-2)
