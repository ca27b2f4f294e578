r"""Many networks with one hidden layer, trained together on a few points.

The weights of the first layer act only through the preactivations at the points at hand, and gradient
descent moves those by the fixed matrix $\lambda_b+\lambda_Wx\cdot x'/n_0$. Evolving them instead of the
weights is the same training, at a cost that does not depend on the number of features.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture.activations import Activation
from finitewidth.architecture.dense import Hyperparameters
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments import layer_integrals

# Preactivations held at a time: few enough for the cache of a core.
_NUMBERS_AT_ONCE = 2**16


class Points(NamedTuple):
    """Gram matrices of the first layer at all points, training points first, targets, and what is above."""

    covariance_root: Float[Array, "points points"]
    motion: Float[Array, "points points"]
    y: Float[Array, "train out"]
    width: int
    activation: Activation
    last: Hyperparameters


class State(NamedTuple):
    """Preactivations, last weights and last biases of a batch of networks."""

    z: Float[Array, "batch points width"]
    w: Float[Array, "batch out width"]
    b: Float[Array, "batch out"]

    def flipped(self) -> "State":
        """The networks with outputs of the opposite sign, and the same tangent kernels."""
        return State(self.z, -self.w, -self.b)


class MeanKernels(NamedTuple):
    """Averages of output products and of tangent kernels over networks: the same at every width."""

    output: Float[np.ndarray, "points points"]
    tangent: Float[np.ndarray, "points points"]


def points_of(
    net: Layer,
    x: Float[np.ndarray, "train d"],
    y: Float[np.ndarray, "train out"],
    x_test: Float[np.ndarray, "test d"],
) -> Points:
    """What training sees of the inputs, in single precision."""
    net = dense_stack(net)
    if net.depth != 2:
        raise ValueError(f"net must have one hidden layer, got hidden={net.hidden}.")
    gram, (first, last) = _gram(np.concatenate([x, x_test])), net.layers
    values, vectors = np.linalg.eigh(first.C_b + first.C_W * gram)
    root, motion = vectors * np.sqrt(np.maximum(values, 0)), first.lambda_b + first.lambda_W * gram
    single = lambda a: jnp.asarray(a, jnp.float32)
    return Points(single(root), single(motion), single(y), net.hidden[0], net.activation, last)


def mean_kernels(net: Layer, x: Float[np.ndarray, "points d"]) -> MeanKernels:
    """Both averages by direct integration over the two preactivations of one neuron."""
    net = dense_stack(net)
    gram, (first, last) = _gram(x), net.layers
    K = first.C_b + first.C_W * gram
    size = np.sqrt(np.diag(K))
    slope = jax.vmap(jax.grad(net.activation))
    plain = lambda z: np.asarray(net.activation(jnp.asarray(z)))
    steep = lambda z: np.asarray(slope(jnp.ravel(jnp.asarray(z)))).reshape(np.shape(z))

    def average(function: layer_integrals.Function, a: int, b: int) -> float:
        of = lambda i: lambda u: function(size[i] * u)
        return layer_integrals.pair_moment(of(a), K[a, b] / (size[a] * size[b]), of(b))

    both = [np.zeros_like(K), np.zeros_like(K)]
    for matrix, function in zip(both, (plain, steep), strict=True):
        for a in range(len(x)):
            for b in range(a + 1):
                matrix[a, b] = matrix[b, a] = average(function, a, b)
    s, ds = both
    motion = first.lambda_b + first.lambda_W * gram
    tangent = last.lambda_b + last.lambda_W * s + last.C_W * ds * motion
    return MeanKernels(last.C_b + last.C_W * s, tangent)


def _gram(x: Float[np.ndarray, "points d"]) -> Float[np.ndarray, "points points"]:
    return x @ x.T / x.shape[1]


def over_batches(
    points: Points, key: PRNGKeyArray, draws: int, statistic: Callable[[State], tuple[Array, ...]]
) -> list[np.ndarray]:
    """Arrays of `statistic`, evaluated for batches of at least so many draws in all, in double precision."""
    size = max(1, min(draws, _NUMBERS_AT_ONCE // (points.width * len(points.motion))))

    @jax.jit
    def batch(batch_key: PRNGKeyArray) -> tuple[Array, ...]:
        return statistic(draw(points, batch_key, size))

    parts = [jax.device_get(batch(jax.random.fold_in(key, i))) for i in range(-(-draws // size))]
    return [np.concatenate(arrays).astype(float) for arrays in zip(*parts, strict=True)]


def draw(points: Points, key: PRNGKeyArray, size: int) -> State:
    """Networks at their random start."""
    n, out = points.width, points.y.shape[1]
    z_key, w_key, b_key = jax.random.split(key, 3)
    normal = lambda k, *shape: jax.random.normal(k, shape, jnp.float32)
    z = _mixed(points.covariance_root, normal(z_key, size, len(points.motion), n))
    w = normal(w_key, size, out, n) * jnp.sqrt(points.last.C_W / n).astype(jnp.float32)
    return State(z, w, normal(b_key, size, out) * jnp.sqrt(points.last.C_b).astype(jnp.float32))


def _mixed(matrix: Float[Array, "p q"], v: Float[Array, "batch q width"]) -> Float[Array, "batch p width"]:
    """A small matrix on the axis of points, as sums that fuse with what surrounds them."""
    return jnp.stack([sum(row[q] * v[:, q] for q in range(v.shape[1])) for row in matrix], axis=1)


def outputs(points: Points, at: State) -> Float[Array, "batch points out"]:
    """Outputs at all points."""
    return at.b[:, None] + points.activation(at.z) @ at.w.mT


def trained(points: Points, start: State, eta: float, steps: int, ridge: float = 0.0) -> State:
    """The networks after so many steps of gradient descent, with a ridge pulled back to their start.

    Preactivations are linear in the weights, so that a pull on the weights is the same pull on them.
    """
    back = lambda now, first: now - eta * ridge * (now - first) if ridge > 0 else now
    train, n = len(points.y), start.z.shape[-1]
    rate_w, rate_b = (jnp.float32(r) for r in (points.last.lambda_W / n, points.last.lambda_b))
    # Batched matrix products throughout: as sums over products the same steps take ten times as long.
    motion = jnp.broadcast_to(points.motion[:, :train], (len(start.z), len(points.motion), train))

    def step(_, at: State) -> State:
        z = at.z[:, :train]
        s, slope = jax.jvp(points.activation, (z,), (jnp.ones_like(z),))
        e = at.b[:, None] + s @ at.w.mT - points.y
        return State(
            back(at.z, start.z) - eta * motion @ (slope * (e @ at.w)),
            back(at.w, start.w) - eta * rate_w * e.mT @ s,
            back(at.b, start.b) - eta * rate_b * jnp.sum(e, axis=1),
        )

    return lax.fori_loop(0, steps, step, start)


def tangent_kernel(points: Points, at: State) -> Float[Array, "batch points out train out"]:
    """Tangent kernels of the networks between all points and the training points."""
    train, n, out = len(points.y), at.z.shape[-1], at.w.shape[1]
    s, slope = jax.jvp(points.activation, (at.z,), (jnp.ones_like(at.z),))
    rate_w, rate_b = (jnp.float32(r) for r in (points.last.lambda_W / n, points.last.lambda_b))
    last = rate_b + rate_w * jnp.einsum("bpn,bqn->bpq", s, s[:, :train])
    pulled = at.w[:, None] * slope[:, :, None]
    first = jnp.einsum("bpin,bqjn->bpiqj", pulled, pulled[:, :train])
    first = first * points.motion[:, None, :train, None]
    return first + last[:, :, None, :, None] * jnp.eye(out, dtype=jnp.float32)[:, None, :]


def linear_descent(
    kernel: Float[Array, "*batch points out train out"],
    z: Float[Array, "*batch points out"],
    y: Float[Array, "train out"],
    eta: float,
    steps: int,
    ridge: float = 0.0,
) -> Float[Array, "*batch points out"]:
    """Where gradient descent takes outputs z whose tangent kernel stays as it is."""

    def step(_, now: Array) -> Array:
        pushed = eta * jnp.einsum("...piqj,...qj->...pi", kernel, now[..., : len(y), :] - y)
        return now - pushed - eta * ridge * (now - z) if ridge > 0 else now - pushed

    return lax.fori_loop(0, steps, step, z)
