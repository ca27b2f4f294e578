r"""Mean and second moments of networks linearised at their random start, after gradient descent.

A linearised network ends at a function of its start z and of its tangent kernel H, so nothing is trained.
Each is compared with the descent whose kernel $\bar H$ is fixed, near the mean: it ends at a fixed function
plus what it leaves of the start. With one hidden layer the means of $zz$ and $H$ are known at every width,
from one neuron, and what is linear in $\Delta H=H-\bar H$ is averaged by hand: it has no part in the mean,
and for the second moments, with $z=b+w\cdot\sigma$ and H quadratic in the last layer w,

$$E_w[z_az_b\,\Delta H_{cd}]=\hat K_{ab}\,\Delta\hat H_{cd}
+\frac{2C_W^2}{n^2}\,\theta_{cd}\sum_k\sigma_{ka}\sigma_{kb}\sigma'_{kc}\sigma'_{kd}$$

where $\hat K$, $\hat H$ are averages over w at given neurons, $\theta=\lambda_b+\lambda_Wx\cdot x'/n_0$, and
$\hat K\Delta\hat H$ has the mean of $(\hat K-K)\,\Delta\hat H$. No draw has more noise than 1/n then.
"""

from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._lab.estimate import Estimate, sample_mean
from finitewidth.course.finite_width_after_training.networks.one_hidden_layer import (
    linear_descent,
    mean_kernels,
)
from finitewidth.course.finite_width_after_training.networks.tangent_draws import Starts, random_starts

Values = TypeVar("Values", Array, np.ndarray)

_NUMBERS_AT_ONCE = 2**17
_PILOTS = 1000


class Descent(NamedTuple):
    """All points, training points first, with targets and the descent on them."""

    x: Float[Array, "points d"]
    y: Float[Array, "train out"]
    eta: float
    steps: int
    ridge: float = 0.0

    @classmethod
    def on(
        cls, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, eta: float, steps: int, ridge: float = 0.0
    ) -> "Descent":
        """In single precision."""
        single = lambda a: jnp.asarray(a, jnp.float32)
        return cls(single(np.concatenate([x, x_test])), single(y), eta, steps, ridge)

    def end(self, kernel: Float[Array, "*batch points out points out"], z: Array, y: Array) -> Array:
        """Outputs at the test points, from the start z."""
        train = len(self.y)
        end = linear_descent(kernel[..., :train, :], z, y, self.eta, self.steps, self.ridge)
        return end[..., train:, :]


class Frozen(NamedTuple):
    """The descent with a fixed kernel: its end from zero, and what it leaves of a start."""

    kernel: Float[Array, "points out points out"]
    end: Float[Array, "test out"]
    left: Float[Array, "test out points out"]

    @classmethod
    def of(cls, net: Layer, descent: Descent, key: PRNGKeyArray) -> "Frozen":
        """With the mean kernel if it is known at this width, or else that of some draws."""
        points, out = len(descent.x), descent.y.shape[1]
        if dense_stack(net).depth == 2:
            mean = jnp.asarray(mean_kernels(net, np.asarray(descent.x, float)).tangent, jnp.float32)
            kernel = mean[:, None, :, None] * jnp.eye(out, dtype=jnp.float32)[:, None, :]
        else:
            kernel = eqx.filter_jit(random_starts)(net, descent.x, key, _PILOTS).kernel.mean(axis=0)
        zero = jnp.zeros((points, out), jnp.float32)
        basis = jnp.eye(points * out, dtype=jnp.float32).reshape(-1, points, out)
        left = jax.vmap(lambda z: descent.end(kernel, z, jnp.zeros_like(descent.y)))(basis)
        return cls(
            kernel,
            descent.end(kernel, zero, descent.y),
            jnp.moveaxis(left, 0, -1).reshape(*left.shape[1:], points, out),
        )

    def of_start(self, z: Float[Array, "draws points out"]) -> Float[Array, "draws test out"]:
        """What is left of starts z."""
        return jnp.einsum("iaqj,tqj->tia", self.left, z)

    def response(self, descent: Descent, change: Array, z: Array) -> Float[Array, "test out"]:
        """How a change of the kernel moves what is left of a start, to first order."""
        left = lambda kernel: descent.end(kernel, z, jnp.zeros_like(descent.y))
        return jax.jvp(left, (self.kernel,), (change,))[1]


def linearised_mean(net: Layer, descent: Descent, key: PRNGKeyArray, draws: int) -> Estimate:
    """Mean outputs (test, out).

    The outputs' start is as often positive as negative with the same kernel, so it has no part in the mean.
    """
    frozen = Frozen.of(net, descent, key) if dense_stack(net).depth == 2 else None
    return sample_mean(_over_batches(_ends, net, descent, frozen, key, draws))


@eqx.filter_jit
def _ends(net: Layer, descent: Descent, frozen: Frozen | None, key: PRNGKeyArray, draws: int) -> Array:
    kernels = random_starts(net, descent.x, key, draws).kernel
    end = lambda kernel: descent.end(kernel, jnp.zeros(kernel.shape[:3], kernel.dtype), descent.y)
    if frozen is None:
        return end(kernels)
    mean = jnp.broadcast_to(frozen.kernel, kernels.shape)
    return end(kernels) - jax.jvp(end, (mean,), (kernels - mean,))[1]


def linearised_moments(
    net: Layer, descent: Descent, frozen: Frozen, key: PRNGKeyArray, draws: int
) -> Estimate:
    """Second moments (test, out, test, out) about the end of the frozen descent."""
    if dense_stack(net).depth > 2:
        return sample_mean(_over_batches(_squares, net, descent, frozen, key, draws))
    mean = OneLayer.of(net, descent, frozen)
    apart = sample_mean(_over_batches(_squares_of_one_layer, net, descent, (frozen, mean), key, draws))
    left = np.asarray(frozen.left, float)
    known = np.einsum("iaqj,qr,kbrj->iakb", left, np.asarray(mean.output, float), left)
    return apart.plus(known)


@eqx.filter_jit
def _squares(net: Layer, descent: Descent, frozen: Frozen, key: PRNGKeyArray, draws: int) -> Array:
    """Products of ends, what the frozen descent leaves of the start being averaged over the last layer."""
    net, starts = dense_stack(net), random_starts(net, descent.x, key, draws)
    s = net.activation(starts.hidden)
    K = (net.C_b[-1] + net.C_W[-1] * s @ s.mT / s.shape[-1]).astype(s.dtype)
    known = jnp.einsum("iaqj,tqr,kbrj->tiakb", frozen.left, K, frozen.left, optimize="optimal")
    return _distance_of_squares(descent, frozen, starts) + known


def _distance_of_squares(descent: Descent, frozen: Frozen, starts: Starts) -> Array:
    """Products of ends less those of what the frozen descent leaves, over both signs of the start."""
    ends = [descent.end(starts.kernel, sign * starts.outputs, descent.y) - frozen.end for sign in (1, -1)]
    still = frozen.of_start(starts.outputs)
    return (outer(ends[0], ends[0]) + outer(ends[1], ends[1])) / 2 - outer(still, still)


class OneLayer(NamedTuple):
    """What is known of one hidden layer: mean kernels, the first layer's, and responses to kernels.

    `response` is what a change of the kernel at (c, k; d, l) adds to what is left of a start at (b, j).
    """

    output: Float[Array, "points points"]
    tangent: Float[Array, "points points"]
    motion: Float[Array, "points points"]
    response: Float[Array, "test out points out points out points out"]

    @classmethod
    def of(cls, net: Layer, descent: Descent, frozen: Frozen) -> "OneLayer":
        """For a network with one hidden layer."""
        net, kernels = dense_stack(net), mean_kernels(net, np.asarray(descent.x, float))
        single = lambda a: jnp.asarray(a, jnp.float32)
        shape, size = frozen.kernel.shape, frozen.kernel.shape[0] * frozen.kernel.shape[1]
        changes = jnp.eye(size**2, dtype=jnp.float32).reshape(-1, *shape)
        starts = jnp.eye(size, dtype=jnp.float32).reshape(-1, *shape[:2])
        respond = lambda change, z: frozen.response(descent, change, z)
        responses = jax.vmap(lambda change: jax.vmap(lambda z: respond(change, z))(starts))(changes)
        response = jnp.moveaxis(responses, (0, 1), (-2, -1)).reshape(*responses.shape[2:], *shape, *shape[:2])
        motion = net.lambda_b[0] + net.lambda_W[0] * descent.x @ descent.x.T / descent.x.shape[1]
        return cls(single(kernels.output), single(kernels.tangent), single(motion), response)

    def averaged_first_order(
        self, net: Layer, frozen: Frozen, hidden: Float[Array, "draws points width"]
    ) -> Float[Array, "draws test out test out"]:
        """What is left of the start times its response to the kernel's fluctuation, averaged over w."""
        net, n, motion = dense_stack(net), hidden.shape[-1], self.motion
        C_b, C_W, lambda_b, lambda_W = (
            a[1].astype(hidden.dtype) for a in (net.C_b, net.C_W, net.lambda_b, net.lambda_W)
        )
        s, slope = jax.jvp(net.activation, (hidden,), (jnp.ones_like(hidden),))
        products, slopes = (v @ v.mT / n for v in (s, slope))
        K = C_b + C_W * products - self.output
        H = lambda_b + lambda_W * products + C_W * motion * slopes - self.tangent
        e = lambda subscripts, *operands: jnp.einsum(subscripts, *operands, optimize="optimal")
        same = e("DIckdkbi->DIcdbi", self.response)
        apart = e("gGai,tab,tcd,DIcdbi->tgGDI", frozen.left, K, H, same)
        crossed = e("DIcidjbj->DIcidb", self.response) + e("DIcjdibj->DIcidb", self.response)
        bent = e("DIcidb,cd,tcn,tdn,tbn->tDIin", crossed, motion, slope, slope, s)
        return apart + (C_W / n) ** 2 * e("gGai,tan,tDIin->tgGDI", frozen.left, s, bent)


@eqx.filter_jit
def _squares_of_one_layer(
    net: Layer, descent: Descent, known: tuple[Frozen, OneLayer], key: PRNGKeyArray, draws: int
) -> Array:
    """Products of ends less those of the frozen descent, the first order in the kernel averaged by hand."""
    frozen, mean = known
    starts = random_starts(net, descent.x, key, draws)
    response = jax.vmap(lambda change, z: frozen.response(descent, change, z))
    drawn = outer(frozen.of_start(starts.outputs), response(starts.kernel - frozen.kernel, starts.outputs))
    rest = mean.averaged_first_order(net, frozen, starts.hidden) - drawn
    return _distance_of_squares(descent, frozen, starts) + rest + rest.transpose(0, 3, 4, 1, 2)


def outer(first: Values, second: Values) -> Values:
    """Products (draws, test, out, test, out) of all entries."""
    return first[:, :, :, None, None] * second[:, None, None]


def _over_batches(
    statistic, net: Layer, descent: Descent, known, key: PRNGKeyArray, draws: int
) -> np.ndarray:
    size = max(1, min(draws, _NUMBERS_AT_ONCE // (max(dense_stack(net).hidden) * len(descent.x))))
    batches = range(-(-draws // size))
    parts = [statistic(net, descent, known, jax.random.fold_in(key, i), size) for i in batches]
    return np.concatenate(jax.device_get(parts)).astype(float)
