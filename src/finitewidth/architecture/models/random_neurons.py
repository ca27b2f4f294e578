r"""One hidden layer of random neurons as a quadratic model, with a kernel and a meta kernel in products.

$$z(x) = \frac1{\sqrt n}\sum_j a_j\,\sigma(w_j\cdot\tilde x),\qquad \tilde x = (x,1)/\sqrt{d+1}.$$

The weights move by $\alpha_j$ and $\omega_j$. At second order two such directions meet in every neuron,

$$\sigma'\,(\alpha_j\,\omega_j'+\alpha_j'\,\omega_j)\cdot\tilde x
+a_j\sigma''\,(\omega_j\cdot\tilde x)(\omega_j'\cdot\tilde x).$$

All sums are products of (points, neurons) matrices: no array with three points or two weights is built.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth._base.arrays import AnyArray
from finitewidth._base.derivatives import value_and_derivatives
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.models.meta_kernel import MetaKernel, factors

# One program for each number of points, instead of one for each operation of the activation.
_curve = eqx.filter_jit(value_and_derivatives)


class Response(NamedTuple):
    """The neurons at some points: inputs with a constant, activations and what their derivatives multiply."""

    x: Float[np.ndarray, "n inputs"]
    value: Float[np.ndarray, "n neurons"]
    slope: Float[np.ndarray, "n neurons"]
    weighted_slope: Float[np.ndarray, "n neurons"]
    weighted_bend: Float[np.ndarray, "n neurons"]


class Direction(NamedTuple):
    r"""A change of all weights: $\alpha$ of the outputs, $\omega$ of the inputs."""

    alpha: Float[np.ndarray, " neurons"]
    omega: Float[np.ndarray, "neurons inputs"]


class RandomNeurons(NamedTuple):
    r"""The weights $a$ and $w$ about which a hidden layer is expanded."""

    a: Float[np.ndarray, " neurons"]
    w: Float[np.ndarray, "neurons inputs"]
    activation: Activation

    @classmethod
    def draw(
        cls, key: PRNGKeyArray, inputs: int, neurons: int, activation: str | Activation, gain: float = 1.0
    ) -> "RandomNeurons":
        """Gaussian output weights of variance 1, Gaussian input weights of variance gain squared."""
        out_key, in_key = jax.random.split(key)
        a = jax.random.normal(out_key, (neurons,), float)
        w = gain * jax.random.normal(in_key, (neurons, inputs + 1), float)
        return cls(np.asarray(a), np.asarray(w), as_activation(activation))

    def at(self, x: Float[np.ndarray, "n d"]) -> Response:
        """Activations and derivatives at some points."""
        d = self.w.shape[1] - 1
        x = np.column_stack([x, np.ones(len(x))]) / math.sqrt(d + 1)
        h = jnp.asarray(x @ self.w.T)
        value, slope, bend = (np.asarray(f) for f in _curve(self.activation.function, h, 2))
        return Response(x, value, slope, self.a * slope, self.a * bend)

    def kernel(self, one: Response, two: Response) -> Float[np.ndarray, "n1 n2"]:
        r"""$k = [\sigma\sigma^T+(a\sigma')(a\sigma')^T\circ\tilde x\tilde x^T]/n$."""
        moved = one.weighted_slope @ two.weighted_slope.T
        return (one.value @ two.value.T + moved * (one.x @ two.x.T)) / len(self.a)


class NeuronMetaKernel(MetaKernel):
    """The meta kernel of random neurons at three sets of points."""

    neurons: RandomNeurons
    points: tuple[Response, Response, Response]

    @property
    def shape(self) -> tuple[int, int, int]:
        n0, n1, n2 = (len(p.x) for p in self.points)
        return n0, n1, n2

    def over_features(self, C: Float[AnyArray, "out n1 n2"]) -> Float[np.ndarray, "n0 out"]:
        first, second, third = self.points

        def column(matrix: np.ndarray) -> np.ndarray:
            pairs = (
                (_push(second, left), _push(third, right))
                for left, right in zip(*factors(matrix), strict=True)
            )
            return sum((_bent(first, u, v) for u, v in pairs), np.zeros(len(first.x)))

        return np.stack([column(c) for c in np.asarray(C)], axis=1)

    def over_meta(self, C: Float[AnyArray, "out n0 n2"]) -> Float[np.ndarray, "n1 out"]:
        first, second, third = self.points

        def column(matrix: np.ndarray) -> np.ndarray:
            alpha, omega = np.zeros_like(self.neurons.a), np.zeros_like(self.neurons.w)
            for left, right in zip(*factors(matrix), strict=True):
                on_output, on_input = _turned(first, _push(third, right))
                alpha += left @ on_output
                omega += (left[:, None] * on_input).T @ first.x
            reached = second.value @ alpha + np.sum(second.weighted_slope * (second.x @ omega.T), axis=1)
            return reached / len(alpha)

        return np.stack([column(c) for c in np.asarray(C)], axis=1)

    def along(self, q: Float[AnyArray, "n2 out"]) -> Float[np.ndarray, "out n0 n1"]:
        first, second, third = self.points

        def matrix(column: np.ndarray) -> np.ndarray:
            on_output, on_input = _turned(first, _push(third, column))
            moved = (on_input @ second.weighted_slope.T) * (first.x @ second.x.T)
            return (on_output @ second.value.T + moved) / len(self.neurons.a)

        return np.stack([matrix(column) for column in np.asarray(q).T])


def _push(points: Response, q: Float[np.ndarray, " n"]) -> Direction:
    r"""$\sum_aq_a\phi_a$: the direction in which these outputs push the weights."""
    scale = 1 / math.sqrt(points.value.shape[1])
    return Direction(
        scale * (points.value.T @ q), scale * ((points.weighted_slope * q[:, None]).T @ points.x)
    )


def _turned(points: Response, v: Direction) -> tuple[np.ndarray, np.ndarray]:
    r"""$\psi v$ at every point, times $\sqrt n$: on output weights, and on input weights per $\tilde x$."""
    along = points.x @ v.omega.T
    return points.slope * along, points.slope * v.alpha + points.weighted_bend * along


def _bent(points: Response, u: Direction, v: Direction) -> Float[np.ndarray, " n"]:
    r"""$u^T\psi\,v$ at every point."""
    on_output, on_input = _turned(points, v)
    return (on_output @ u.alpha + np.sum(on_input * (points.x @ u.omega.T), axis=1)) / math.sqrt(len(u.alpha))
