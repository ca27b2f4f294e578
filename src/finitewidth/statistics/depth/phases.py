r"""Which initialisations order a signal, which make it chaotic, and over how many layers.

From any start the variance flows to a fixed point $K^* = C_b + C_W\,g(K^*)$. There
$\chi_\perp<1$ means that all inputs become alike (ordered), $\chi_\perp>1$ that similar inputs become
different (chaotic); memory of the input is lost over $\xi = 1/|\log\chi|$ layers.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from scipy.interpolate import CubicSpline

from finitewidth._base.checks import as_numbers, is_number
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.critical_point import critical_point, layer_response
from finitewidth.architecture.dense import AFFINE
from finitewidth.architecture.layer import Layer, replaced
from finitewidth.architecture.networks import activations_of
from finitewidth.architecture.sequential import Repeat
from finitewidth.statistics.depth.block_response import BlockResponse, check_block, response_at
from finitewidth.statistics.wide.kernels import default_laws
from finitewidth.statistics.wide.rules.pairs import PairLaws

_SMALLEST, _LARGEST = 1e-12, 1e8
_CRITICAL_BAND = 1e-6
_CRITICAL_RATE = 1e-10
# Variances at which the flow of a block is known, halvings of the interval between two, and its rounding.
_GRID, _HALVINGS, _ROUNDING = 256, 50, 1e-13


class PhaseDiagram(eqx.Module):
    """Fixed points and susceptibilities; every field is (C_b values, C_W values).

    `K_star` is infinite where the variance grows without bound; susceptibilities there are those of
    very large variances.
    """

    activation: Activation = eqx.field(static=True)
    C_b: Float[np.ndarray, " biases"]
    C_W: Float[np.ndarray, " weights"]
    K_star: Float[np.ndarray, "biases weights"]
    chi_parallel: Float[np.ndarray, "biases weights"]
    chi_perpendicular: Float[np.ndarray, "biases weights"]

    @property
    def phase(self) -> np.ndarray:
        """ "ordered", "critical" or "chaotic" for every pair of C_b and C_W."""
        excess = self.chi_perpendicular - 1
        names = np.where(excess < 0, "ordered", "chaotic")
        return np.where(np.abs(excess) <= _CRITICAL_BAND, "critical", names)

    @property
    def correlation_length(self) -> Float[np.ndarray, "biases weights"]:
        """Layers over which the difference of two inputs changes by a factor e."""
        return _lengths(self.chi_perpendicular)


class CorrelationLengths(NamedTuple):
    """Depths over which a change of the variance, and a difference of inputs, survive."""

    parallel: float
    perpendicular: float


def fixed_point(activation: str | Activation, C_b: float, C_W: float, K_start: float = 1.0) -> float:
    """The variance K* that deep layers approach from `K_start`; infinite when there is none.

    Examples
    --------
    >>> import finitewidth as fw
    >>> round(fw.fixed_point("relu", C_b=0.5, C_W=1.0), 9)      # C_b / (1 - C_W / 2)
    1.0
    """
    _check_variances(C_b, C_W)
    K = _fixed_points(as_activation(activation), np.array([C_b]), np.array([C_W]), K_start)
    return float(K[0])


def correlation_lengths(activation: str | Activation, C_b: float, C_W: float) -> CorrelationLengths:
    """Depth scales 1/|log chi| at the fixed point; infinite at criticality."""
    K_star = fixed_point(activation, C_b, C_W)
    response = layer_response(as_activation(activation), jnp.asarray(np.clip(K_star, _SMALLEST, _LARGEST)))
    chi = C_W * np.array([float(response.g_prime), float(response.h)])
    return CorrelationLengths(*(float(length) for length in _lengths(chi)))


def phase_diagram(
    activation: str | Activation | Layer,
    C_W: Float[np.ndarray, " weights"] | None = None,
    C_b: Float[np.ndarray, " biases"] | None = None,
) -> PhaseDiagram:
    """Map of fixed points and susceptibilities over the initialisation.

    Parameters
    ----------
    activation
        Name or `Activation`; or a block of layers, all of whose weights then get the variances of the map.
    C_W, C_b
        Values along the axes; by default a grid around the critical point, or around the variances
        at which gradients are preserved when there is none.

    Examples
    --------
    >>> import numpy as np, finitewidth as fw
    >>> diagram = fw.phase_diagram("tanh", C_W=np.array([0.5, 3.0]), C_b=np.array([0.0]))
    >>> diagram.phase[0].tolist()
    ['ordered', 'chaotic']
    """
    block = activation if isinstance(activation, Layer) else None
    activation = _activation_of(activation) if isinstance(activation, Layer) else as_activation(activation)
    default_C_b, default_C_W = _default_axes(activation)
    C_W = default_C_W if C_W is None else np.asarray(as_numbers("C_W", C_W), dtype=float)
    C_b = default_C_b if C_b is None else np.asarray(as_numbers("C_b", C_b), dtype=float)
    if C_W.ndim != 1 or C_b.ndim != 1 or not C_W.size or not C_b.size:
        raise ValueError(f"C_W and C_b must be one-dimensional grids, got shapes {C_W.shape}, {C_b.shape}.")
    _check_variances(float(C_b.min()), float(C_W.min()))
    biases, weights = np.meshgrid(C_b, C_W, indexing="ij")
    if block is not None:
        return PhaseDiagram(activation, C_b, C_W, *_block_phases(block, biases, weights))
    K_star = _fixed_points(activation, biases, weights, 1.0)
    response = layer_response(activation, jnp.asarray(np.clip(K_star, _SMALLEST, _LARGEST)))
    return PhaseDiagram(
        activation, C_b, C_W, K_star, weights * np.asarray(response.g_prime), weights * np.asarray(response.h)
    )


def _activation_of(block: Layer) -> Activation:
    found = activations_of(block)
    if not found:
        raise ValueError("a block without an activation has no phase diagram: it is linear.")
    return found[0]


def _block_phases(block: Layer, C_b: np.ndarray, C_W: np.ndarray) -> list[np.ndarray]:
    """Fixed points and both susceptibilities of a block for every pair of variances of its weights."""
    if isinstance(block, Repeat):
        block = block.layer
    check_block(block)
    K, *chi = _fixed_responses(block, default_laws(block), jnp.asarray(C_b.ravel()), jnp.asarray(C_W.ravel()))
    K_star = np.asarray(K)
    K_star = np.where(K_star > 0.9 * _LARGEST, np.inf, np.where(K_star < 1.1 * _SMALLEST, 0.0, K_star))
    return [np.asarray(a).reshape(C_b.shape) for a in (K_star, *chi)]


@eqx.filter_jit
def _fixed_responses(block: Layer, laws: PairLaws, C_b: Array, C_W: Array) -> BlockResponse:
    """Fixed point, as the variance, and susceptibilities for every pair of variances of the weights."""
    log_grid = jnp.linspace(np.log(_SMALLEST), np.log(_LARGEST), _GRID)
    index, start = jnp.arange(_GRID), jnp.argmin(jnp.abs(log_grid))

    def at(C_b: Array, C_W: Array) -> BlockResponse:
        placed = _with_variances(block, C_b, C_W)

        def growth(log_K: Array) -> Array:
            """Relative change of the variance in one block; changes of the size of rounding count as none."""
            K = jnp.exp(log_K)
            change = response_at(placed, laws, K).variance / K - 1
            return jnp.where(jnp.abs(change) < _ROUNDING, 0.0, change)

        change = jax.vmap(growth)(log_grid)
        up = change[start] > 0
        # The first place where the variance stops on its way up, or down, from one.
        above = jnp.min(jnp.where((change <= 0) & (index > start), index, _GRID - 1))
        below = jnp.max(jnp.where((change >= 0) & (index < start), index, 0))
        low, high = jnp.where(up, above - 1, below), jnp.where(up, above, below + 1)

        def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = (low + high) / 2
            grows = growth(middle) > 0
            return jnp.where(grows, middle, low), jnp.where(grows, high, middle)

        low, high = lax.fori_loop(0, _HALVINGS, halve, (log_grid[low], log_grid[high]))
        K = jnp.exp(jnp.where(change[start] == 0, log_grid[start], (low + high) / 2))
        return response_at(placed, laws, K)._replace(variance=K)

    return jax.vmap(at)(C_b, C_W)


def _with_variances(block: Layer, C_b: Array, C_W: Array) -> Layer:
    if isinstance(block, AFFINE):
        return replaced(block, C_b=C_b, C_W=C_W)
    return block.with_inner(lambda inner: _with_variances(inner, C_b, C_W))


def _lengths(chi: np.ndarray) -> np.ndarray:
    """1/|log chi|: infinite where chi is one up to the rounding of the fixed point, zero for chi = 0."""
    with np.errstate(divide="ignore"):
        rate = np.abs(np.log(chi))
        return np.where(rate < _CRITICAL_RATE, np.inf, 1 / rate)


def _fixed_points(activation: Activation, C_b: np.ndarray, C_W: np.ndarray, K_start: float) -> np.ndarray:
    """The first zero of the flow C_b + C_W g(K) - K that the variance meets on its way from the start.

    The flow is read off a spline of g, then the zero is polished with Newton's method on g itself.
    """
    log_grid = np.linspace(np.log(_SMALLEST), np.log(_LARGEST), 2001)
    g = CubicSpline(log_grid, np.asarray(layer_response(activation, jnp.exp(log_grid)).g))
    C_b, C_W = (a[..., None] for a in np.broadcast_arrays(C_b, C_W))

    def flow(log_K: np.ndarray) -> np.ndarray:
        return C_b + C_W * g(log_K) - np.exp(log_K)

    start = np.searchsorted(log_grid, np.log(K_start))
    grows = flow(log_grid[start : start + 1]) > 0
    positive = flow(log_grid) > 0
    index = np.arange(log_grid.size)
    above = np.where(~positive & (index >= start), index, log_grid.size - 1).min(axis=-1, keepdims=True)
    below = np.where(positive & (index <= start), index, 0).max(axis=-1, keepdims=True)
    low = log_grid[np.where(grows, np.maximum(above - 1, 0), below)]
    high = log_grid[np.where(grows, above, np.minimum(below + 1, log_grid.size - 1))]
    for _ in range(50):
        middle = (low + high) / 2
        up = flow(middle) > 0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    K, C_b, C_W = np.exp(high)[..., 0], C_b[..., 0], C_W[..., 0]
    for _ in range(2):
        response = layer_response(activation, jnp.asarray(K))
        gain = C_W * np.asarray(response.g_prime)
        step = (C_b + C_W * np.asarray(response.g) - K) / np.where(gain < 0.999, 1 - gain, np.inf)
        K = np.where(np.abs(step) < 1e-3 * K, K + step, K)
    return np.where(K > 0.9 * _LARGEST, np.inf, np.where(K < 1.1 * _SMALLEST, 0.0, K))


def _default_axes(activation: Activation) -> tuple[np.ndarray, np.ndarray]:
    point = critical_point(activation)
    if point.exists:
        centre, height = point.C_W, max(2 * point.C_b, 0.3)
    else:
        response = layer_response(activation, jnp.asarray(1.0))
        centre, height = float(1 / response.h) if float(response.h) > 0 else 2.0, 1.0
    return np.linspace(0.0, height, 61), np.linspace(0.25 * centre, 2.5 * centre, 73)


def _check_variances(C_b: float, C_W: float) -> None:
    if not (is_number(C_b) and C_b >= 0):
        raise ValueError(f"C_b must be zero or positive, got {C_b!r}.")
    if not (is_number(C_W) and C_W > 0):
        raise ValueError(f"C_W must be positive, got {C_W!r}.")
