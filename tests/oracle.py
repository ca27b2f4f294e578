"""Gaussian averages by brute force: numpy and scipy only, nothing from the package.

Two preactivations are z_a = sqrt(q_a) r cos(t), z_b = sqrt(q_b) r cos(t - phi) with r^2/2
exponential, t uniform and cos(phi) = rho. A kink at zero lies on the rays where one of the cosines
vanishes, so Gauss-Legendre panels that end on these rays integrate kinked activations to rounding,
at rho = +-1 too (two of the four wedges are then empty). Kinks elsewhere cut every ray at two radii, and
the rays on which both radii are the same end a panel too.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


class Neuron(NamedTuple):
    """sigma and sigma', written by hand, and where sigma has kinks beside zero."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    kinks: tuple[float, ...] = ()


def _normal_cdf(z):
    return special.ndtr(z)


def _normal_pdf(z):
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _silu_slope(z):
    s = special.expit(z)
    return s + z * s * (1 - s)


def _softplus(z):
    return np.logaddexp(0, z)


def _mish_slope(z):
    t = np.tanh(_softplus(z))
    return t + z * (1 - t**2) * special.expit(z)


def _left_exponential(scale, alpha):
    def value(z):
        return scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0)))

    def slope(z):
        return scale * np.where(z > 0, 1, alpha * np.exp(np.minimum(z, 0)))

    return Neuron(value, slope)


def piecewise(left, right=1.0):
    """Slope `left` below zero and `right` above."""
    return Neuron(lambda z: np.where(z > 0, right, left) * z, lambda z: np.where(z > 0, right, left) + 0 * z)


def power(p):
    """z^p."""
    return Neuron(lambda z: z**p, lambda z: p * z ** (p - 1))


NEURONS: dict[str, Neuron] = {
    "linear": piecewise(1.0),
    "relu": piecewise(0.0),
    "leaky_relu": piecewise(0.01),
    "abs": piecewise(-1.0),
    "step": Neuron(lambda z: np.where(z > 0, 1.0, 0.0), np.zeros_like),
    "erf": Neuron(special.erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2))),
    "sin": Neuron(np.sin, np.cos),
    "cos": Neuron(np.cos, lambda z: -np.sin(z)),
    "gelu": Neuron(lambda z: z * _normal_cdf(z), lambda z: _normal_cdf(z) + z * _normal_pdf(z)),
    "tanh": Neuron(np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "sigmoid": Neuron(special.expit, lambda z: special.expit(z) * special.expit(-z)),
    "softplus": Neuron(_softplus, special.expit),
    "silu": Neuron(lambda z: z * special.expit(z), _silu_slope),
    "elu": _left_exponential(1.0, 1.0),
    "selu": _left_exponential(SELU_SCALE, SELU_ALPHA),
    "mish": Neuron(lambda z: z * np.tanh(_softplus(z)), _mish_slope),
    "relu6": Neuron(lambda z: np.clip(z, 0, 6), lambda z: 1.0 * ((z > 0) & (z < 6)), (6.0,)),
    "hard_tanh": Neuron(lambda z: np.clip(z, -1, 1), lambda z: 1.0 * (np.abs(z) < 1), (-1.0, 1.0)),
    "hard_sigmoid": Neuron(lambda z: np.clip(z / 6 + 0.5, 0, 1), lambda z: (np.abs(z) < 3) / 6, (-3.0, 3.0)),
}


def _panels(breaks: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss's rule on every panel between breaks, which may stand side by side."""
    x, w = np.polynomial.legendre.leggauss(order)
    half = np.diff(breaks, axis=0)[:, None] / 2
    middle = (breaks[1:] + breaks[:-1])[:, None] / 2
    side = breaks.shape[1:]
    x, w = (v.reshape(-1, *(1 for _ in side)) for v in (x, w))
    return (middle + half * x).reshape(-1, *side), (half * w).reshape(-1, *side)


def _graded(depth: int) -> np.ndarray:
    """Breaks in [0, 1/2] that shrink fourfold towards zero, where steep activations change."""
    return np.concatenate([[0.0], 0.5 * 4.0 ** np.arange(-depth, 1.0)])


def pair_averages(neuron: Neuron, q_a: float, q_b: float, rho: float) -> tuple[float, float]:
    """<sigma_a sigma_b> and <sigma'_a sigma'_b>."""
    inner = _graded(max(2, int(np.ceil(np.log(20 * np.sqrt(max(q_a, q_b))) / np.log(4)))))
    phi = np.arccos(rho)
    at_a, at_b = (np.array(neuron.kinks) / np.sqrt(q) for q in (q_a, q_b))
    rays = [np.pi / 2, 3 * np.pi / 2, phi + np.pi / 2, phi - np.pi / 2]
    if abs(rho) < 1:  # where r cos(t) = a and r cos(t - phi) = b on the same circle
        meet = [np.arctan2(b - a * rho, a * np.sqrt(1 - rho**2)) for a in at_a for b in at_b]
        rays += [*meet, *(np.array(meet) + np.pi)]
    rays = np.sort(np.mod(rays, 2 * np.pi))
    rays = np.append(rays, rays[0] + 2 * np.pi)
    wedge = np.concatenate([inner, 1 - inner[-2::-1]])
    pieces = [_panels(a + (b - a) * wedge, 14) for a, b in itertools.pairwise(rays) if b > a]
    t, weight_t = (np.concatenate(p) for p in zip(*pieces, strict=True))
    along = np.concatenate([inner, np.linspace(0.5, 12.5, 16)[1:]])
    cuts = [c / np.cos(t) for c in at_a] + [c / np.cos(t - phi) for c in at_b]
    breaks = np.sort(np.stack([np.full_like(t, r) for r in along] + [np.clip(c, 0, 12.5) for c in cuts]), 0)
    r, weight_r = _panels(breaks, 14)
    weight = weight_t * weight_r * r * np.exp(-(r**2) / 2) / (2 * np.pi)
    z_a, z_b = np.sqrt(q_a) * np.cos(t) * r, np.sqrt(q_b) * np.cos(t - phi) * r
    return tuple(float(np.sum(weight * f(z_a) * f(z_b))) for f in (neuron.value, neuron.slope))


def _line(q: float, kinks: tuple[float, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u and weights for averages over u ~ N(0, 1); panels end at zero and where the kinks are."""
    along = np.concatenate([_graded(7), np.linspace(0.5, 13.5, 27)[1:]])
    cuts = [k / np.sqrt(q) for k in kinks if abs(k) < 13.5 * np.sqrt(q)]
    nodes, weights = _panels(np.unique(np.concatenate([-along, along, cuts])), 20)
    return nodes, weights * _normal_pdf(nodes)


def line_average(f: Callable[[np.ndarray], np.ndarray], q: float, kinks: tuple[float, ...] = ()) -> float:
    """<f(z)> for z ~ N(0, q)."""
    u, weights = _line(q, kinks)
    return float(weights @ f(np.sqrt(q) * u))


class Layer(NamedTuple):
    """One layer's answer to a variance: g = <sigma^2>, dg/dK, h = <sigma'^2>."""

    g: float
    g_prime: float
    h: float


def layer(neuron: Neuron, q: float) -> Layer:
    """The three averages at variance q; dg/dq is taken on the Gaussian, not on the activation."""
    u, weights = _line(q, neuron.kinks)
    z = np.sqrt(q) * u
    square = neuron.value(z) ** 2 * weights
    return Layer(
        float(square.sum()),
        float(square @ (u**2 - 1)) / (2 * q),
        float(weights @ neuron.slope(z) ** 2),
    )
