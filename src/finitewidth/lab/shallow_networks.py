r"""Many networks with one hidden layer, trained together on a few points.

The weights of the first layer act only through the preactivations at the points at hand, and gradient
descent moves those by the fixed matrix $\lambda_b+\lambda_Wx\cdot x'/n_0$. Evolving them instead of the
weights is the same training, at a cost that does not depend on the number of features.

Each draw is trained with both signs of its last layer, beside the network linearised at its start: the
difference of the two has far less noise than the trained outputs, and the linearised mean needs no training.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture import MLP
from finitewidth.lab.estimate import Estimate, sample_mean

_NUMBERS_AT_ONCE = 2**19


class Points(NamedTuple):
    """Gram matrices of the first layer at all points, training points first, and the targets."""

    covariance_root: Float[Array, "points points"]
    motion: Float[Array, "points points"]
    y: Float[Array, "train out"]


class Start(NamedTuple):
    """Preactivations, last weights and last biases of a batch of networks."""

    z: Float[Array, "batch points width"]
    w: Float[Array, "batch out width"]
    b: Float[Array, "batch out"]


def trained_mean(
    net: MLP,
    x: Float[np.ndarray, "train d"],
    y: Float[np.ndarray, "train out"],
    x_test: Float[np.ndarray, "test d"],
    key: PRNGKeyArray,
    *,
    eta: float,
    steps: int,
    pairs: int,
    linear: int,
) -> Estimate:
    """Mean outputs (test, out) of trained networks, from pairs of them and linearised draws; none dropped."""
    if net.depth != 2:
        raise ValueError(f"net must have one hidden layer, got hidden={net.hidden}.")
    gram = np.concatenate([x, x_test]) @ np.concatenate([x, x_test]).T / x.shape[1]
    values, vectors = np.linalg.eigh(float(net.C_b[0]) + float(net.C_W[0]) * gram)
    single = lambda a: jnp.asarray(a, jnp.float32)
    points = Points(
        single(vectors * np.sqrt(np.maximum(values, 0))),
        single(float(net.lambda_b[0]) + float(net.lambda_W[0]) * gram),
        single(y),
    )
    trained_key, linear_key = jax.random.split(key)
    both = _over_batches(net, points, trained_key, pairs, eta, steps, trained=True)
    alone = _over_batches(net, points, linear_key, linear, eta, steps, trained=False)
    moved, still = sample_mean(both[0] - both[1]), sample_mean(alone[1])
    return Estimate(moved.value + still.value, np.hypot(moved.sem, still.sem))


def _over_batches(net, points: Points, key, draws: int, eta: float, steps: int, *, trained: bool):
    size = max(1, min(draws, _NUMBERS_AT_ONCE // (net.hidden[0] * len(points.motion))))
    batches = -(-draws // size)
    parts = [
        jax.device_get(_batch(net, points, jax.random.fold_in(key, i), size, eta, steps, trained))
        for i in range(batches)
    ]
    return [np.concatenate(arrays).astype(float) for arrays in zip(*parts, strict=True)]


@eqx.filter_jit
def _batch(net: MLP, points: Points, key: PRNGKeyArray, size: int, eta: float, steps: int, trained: bool):
    """Outputs at the test points, trained and linearised, averaged over both signs of the last layer."""
    train = len(points.y)
    start = _draw(net, points, key, size)
    flipped = Start(start.z, -start.w, -start.b)
    kernel = _tangent_kernel(net, points, start)
    outputs = [_outputs(net, s) for s in (start, flipped)]
    linear = jnp.mean(jnp.stack([_linear(kernel, z, points.y, eta, steps) for z in outputs]), axis=0)
    if not trained:
        return linear[:, train:], linear[:, train:]
    ends = [_outputs(net, _trained(net, points, s, eta, steps)) for s in (start, flipped)]
    return jnp.mean(jnp.stack(ends), axis=0)[:, train:], linear[:, train:]


def _draw(net: MLP, points: Points, key: PRNGKeyArray, size: int) -> Start:
    n, out = net.hidden[0], points.y.shape[1]
    z_key, w_key, b_key = jax.random.split(key, 3)
    normal = lambda k, *shape: jax.random.normal(k, shape, jnp.float32)
    z = _mixed(points.covariance_root, normal(z_key, size, len(points.motion), n))
    w = normal(w_key, size, out, n) * jnp.sqrt(net.C_W[1] / n).astype(jnp.float32)
    return Start(z, w, normal(b_key, size, out) * jnp.sqrt(net.C_b[1]).astype(jnp.float32))


def _mixed(matrix: Float[Array, "p q"], v: Float[Array, "batch q width"]) -> Float[Array, "batch p width"]:
    """A small matrix on the axis of points, as sums that fuse with what surrounds them."""
    return jnp.stack([sum(row[q] * v[:, q] for q in range(v.shape[1])) for row in matrix], axis=1)


def _outputs(net: MLP, at: Start) -> Float[Array, "batch points out"]:
    s = net.activation(at.z)
    return at.b[:, None] + jnp.sum(s[:, :, None] * at.w[:, None], axis=-1)


def _trained(net: MLP, points: Points, start: Start, eta: float, steps: int) -> Start:
    train, n = len(points.y), start.z.shape[-1]
    rate_w, rate_b = (r[1].astype(jnp.float32) for r in (net.lambda_W / n, net.lambda_b))

    def step(_, at: Start) -> Start:
        s, slope = jax.jvp(net.activation, (at.z,), (jnp.ones_like(at.z),))
        outputs = at.b[:, None] + jnp.sum(s[:, :train, None] * at.w[:, None], axis=-1)
        e = outputs - points.y
        pushed = slope[:, :train] * jnp.sum(e[..., None] * at.w[:, None], axis=2)
        return Start(
            at.z - eta * _mixed(points.motion[:, :train], pushed),
            at.w - eta * rate_w * jnp.sum(e[..., None] * s[:, :train, None], axis=1),
            at.b - eta * rate_b * jnp.sum(e, axis=1),
        )

    return lax.fori_loop(0, steps, step, start)


def _tangent_kernel(net: MLP, points: Points, at: Start) -> Float[Array, "batch points out train out"]:
    train, n, out = len(points.y), at.z.shape[-1], at.w.shape[1]
    s, slope = jax.jvp(net.activation, (at.z,), (jnp.ones_like(at.z),))
    rate_w, rate_b = (r[1].astype(jnp.float32) for r in (net.lambda_W / n, net.lambda_b))
    last = rate_b + rate_w * jnp.einsum("bpn,bqn->bpq", s, s[:, :train])
    pulled = at.w[:, None] * slope[:, :, None]
    first = jnp.einsum("bpin,bqjn->bpiqj", pulled, pulled[:, :train])
    first = first * points.motion[:, None, :train, None]
    return first + last[:, :, None, :, None] * jnp.eye(out, dtype=jnp.float32)[:, None, :]


def _linear(kernel: Array, z: Array, y: Array, eta: float, steps: int) -> Array:
    def step(_, z):
        return z - eta * jnp.einsum("bpiqj,bqj->bpi", kernel, z[:, : len(y)] - y)

    return lax.fori_loop(0, steps, step, z)
