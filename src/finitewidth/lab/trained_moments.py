r"""Mean and covariance of trained networks with one hidden layer, with little noise.

Each draw is trained with both signs of its last layer, beside the network linearised at its start: the
difference of the two has far less noise than the trained outputs, and the linearised network needs no
training. In its turn it is compared with the descent whose kernel is the mean one, $\bar H$, which is known
from one neuron. Of the covariance what is linear in $\Delta H=H-\bar H$ is averaged over the last layer by
hand: for $z=b+w\cdot\sigma$ and $H$ quadratic in w,

$$E_w[z_az_b\,\Delta H_{cd}]=\hat K_{ab}\,\Delta\hat H_{cd}
+\frac{2C_W^2}{n^2}\,\theta_{cd}\sum_k\sigma_{ka}\sigma_{kb}\sigma'_{kc}\sigma'_{kd}$$

with $\hat K$, $\hat H$ the averages over w at given neurons and $\theta=\lambda_b+\lambda_Wx\cdot x'/n_0$;
and $\hat K\Delta\hat H$ has the mean of $(\hat K-K)\,\Delta\hat H$. Then no term has more noise than 1/n
per draw.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture import MLP
from finitewidth.lab import shallow_networks as shallow
from finitewidth.lab.estimate import Estimate, sample_mean
from finitewidth.lab.shallow_networks import State, linear_descent
from finitewidth.lab.tangent_draws import linearised_mean


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
    points = shallow.points_of(net, x, y, x_test)
    trained_key, linear_key = jax.random.split(key)

    def nonlinear(start: State) -> tuple[Array]:
        kernel = shallow.tangent_kernel(net, points, start)
        zero = jnp.zeros(kernel.shape[:3], kernel.dtype)
        both = [
            shallow.outputs(net, shallow.trained(net, points, s, eta, steps))
            for s in (start, start.flipped())
        ]
        linear_end = linear_descent(kernel, zero, points.y, eta, steps)
        return (((both[0] + both[1]) / 2 - linear_end)[:, len(y) :],)

    moved = sample_mean(shallow.over_batches(net, points, trained_key, pairs, nonlinear)[0])
    still = linearised_mean(net, x, y, x_test, linear_key, eta=eta, steps=steps, draws=linear)
    return Estimate(moved.value + still.value, np.hypot(moved.sem, still.sem))


def trained_covariance(
    net: MLP,
    x: Float[np.ndarray, "train d"],
    y: Float[np.ndarray, "train 1"],
    x_test: Float[np.ndarray, "test d"],
    key: PRNGKeyArray,
    *,
    eta: float,
    steps: int,
    pairs: int,
    linear: int,
) -> Estimate:
    """Covariance (test, test) of the one output of trained networks; none dropped."""
    instrument = _Covariance(net, x, y, x_test, eta, steps)
    points, (trained_key, linear_key) = instrument.points, jax.random.split(key)
    shift, moved = shallow.over_batches(net, points, trained_key, pairs, instrument.nonlinear)
    (still,) = shallow.over_batches(net, points, linear_key, linear, instrument.linear)
    moved, still, shift = sample_mean(moved), sample_mean(still), shift.mean(axis=0)
    value = instrument.frozen + still.value + moved.value - np.outer(shift, shift)
    return Estimate(value, np.hypot(moved.sem, still.sem))


class _Covariance:
    """Second moments at the test points about the end of descent with the mean kernel."""

    def __init__(self, net: MLP, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, eta: float, steps: int):
        self.net, self.points, self.train = net, shallow.points_of(net, x, y, x_test), len(y)
        self.eta, self.steps = eta, steps
        kernels = shallow.mean_kernels(net, np.concatenate([x, x_test]))
        single = lambda a: jnp.asarray(a, jnp.float32)
        self.K, self.H = single(kernels.output), single(kernels.tangent[:, : len(y)])
        self.mean = self._end(self.H, jnp.zeros(len(self.K), jnp.float32), self.points.y[:, 0])
        start = jnp.eye(len(self.K), dtype=jnp.float32)
        self.left = jax.vmap(self._left, out_axes=1)(start)
        basis = jnp.eye(self.H.size, dtype=jnp.float32).reshape(-1, *self.H.shape)
        responses = jax.vmap(lambda dH: jax.vmap(lambda z: self._response(dH, z))(start))(basis)
        self.response = responses.reshape(*self.H.shape, *responses.shape[1:])
        left = np.asarray(self.left, float)
        self.frozen = left @ kernels.output @ left.T

    def nonlinear(self, start: State) -> tuple[Array, Array]:
        """Trained outputs less the mean, and trained less linearised squares, over both signs."""
        kernel = shallow.tangent_kernel(self.net, self.points, start)[:, :, 0, :, 0]
        ends, squares = [], []
        for s in (start, start.flipped()):
            z = shallow.outputs(self.net, s)[..., 0]
            end = shallow.trained(self.net, self.points, s, self.eta, self.steps)
            trained = (shallow.outputs(self.net, end)[..., 0] - self.mean)[:, self.train :]
            linear = (self._ends(kernel, z) - self.mean)[:, self.train :]
            ends.append(trained)
            squares.append(_outer(trained, trained) - _outer(linear, linear))
        return (ends[0] + ends[1]) / 2, (squares[0] + squares[1]) / 2

    def linear(self, start: State) -> tuple[Array]:
        """Squares of linearised outputs less those with the mean kernel, over both signs."""
        kernel = shallow.tangent_kernel(self.net, self.points, start)[:, :, 0, :, 0]
        z = shallow.outputs(self.net, start)[..., 0]
        frozen = z @ self.left.T
        ends = [(self._ends(kernel, sign * z) - self.mean)[:, self.train :] for sign in (1, -1)]
        squares = sum(_outer(end, end) for end in ends) / 2 - _outer(frozen, frozen)
        first = _outer(frozen, jax.vmap(self._response)(kernel - self.H, z))
        rest = self.averaged_first_order(start) - first
        return (squares + rest + rest.swapaxes(1, 2),)

    def averaged_first_order(self, start: State) -> Float[Array, "batch test test"]:
        """Frozen outputs times their response to the kernel's fluctuation, averaged over the last layer."""
        n, train = start.z.shape[-1], self.train
        net, motion = self.net, self.points.motion[:, :train]
        C_b, C_W, lambda_b, lambda_W = (
            a[1].astype(jnp.float32) for a in (net.C_b, net.C_W, net.lambda_b, net.lambda_W)
        )
        s, slope = jax.jvp(net.activation, (start.z,), (jnp.ones_like(start.z),))
        products = jnp.einsum("tan,tbn->tab", s, s) / n
        slopes = jnp.einsum("tan,tbn->tab", slope, slope[:, :train]) / n
        K = C_b + C_W * products - self.K
        H = lambda_b + lambda_W * products[:, :, :train] + C_W * motion * slopes - self.H
        apart = jnp.einsum("ga,tab,tcd,cdbD->tgD", self.left, K, H, self.response, optimize="optimal")
        weights = motion[:, :, None, None] * self.response
        bent = jnp.einsum("cdbD,tcn,tdn,tbn->tDn", weights, slope, slope[:, :train], s, optimize="optimal")
        joint = 2 * (C_W / n) ** 2 * jnp.einsum("ga,tan,tDn->tgD", self.left, s, bent, optimize="optimal")
        return apart + joint

    def _end(self, kernel: Array, z: Array, y: Array) -> Array:
        ends = linear_descent(kernel[:, None, :, None], z[:, None], y[:, None], self.eta, self.steps)
        return ends[:, 0]

    def _ends(self, kernels: Array, z: Array) -> Array:
        return jax.vmap(lambda kernel, start: self._end(kernel, start, self.points.y[:, 0]))(kernels, z)

    def _left(self, z: Array) -> Array:
        """What descent with the mean kernel leaves of a start, at the test points."""
        return self._end(self.H, z, jnp.zeros(self.train, z.dtype))[self.train :]

    def _response(self, change: Array, z: Array) -> Array:
        """How a change of the kernel moves what is left of a start, to first order."""
        nothing = jnp.zeros(self.train, z.dtype)
        return jax.jvp(lambda kernel: self._end(kernel, z, nothing), (self.H,), (change,))[1][self.train :]


def _outer(first: Float[Array, "batch p"], second: Float[Array, "batch q"]) -> Float[Array, "batch p q"]:
    return first[:, :, None] * second[:, None, :]
