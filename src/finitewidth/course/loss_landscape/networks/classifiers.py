"""Small classifiers of clusters: their data, their training, and their dense curvature."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth.architecture.mlp import MLP
from finitewidth.measure.specimen import Specimen, specimen


class Clusters(NamedTuple):
    """Inputs (points, n_in) and classes (points,)."""

    x: Float[np.ndarray, "points n_in"]
    y: Int[np.ndarray, " points"]


def clusters(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    n_in: int,
    noise: float,
    *,
    offset: float = 0.0,
    fresh: bool = False,
) -> tuple[Clusters, ...]:
    """Gaussian clouds around centres at right angles, with coordinates of mean square one.

    `offset` moves all of them along one random direction, by so many times the length of a centre. With
    `fresh`, a second set is drawn around the same centres.
    """
    centres = np.linalg.qr(rng.normal(size=(n_in, len(sizes))))[0].T * np.sqrt(n_in)
    shared = rng.normal(size=n_in)
    shared *= offset * np.sqrt(n_in) / np.linalg.norm(shared)
    y = np.repeat(np.arange(len(sizes)), sizes)
    sets = 2 if fresh else 1
    return tuple(
        Clusters(shared + centres[y] + noise * rng.normal(size=(len(y), n_in)), y) for _ in range(sets)
    )


class Architecture(NamedTuple):
    """Sizes of a perceptron that classifies, by which its programs are found again."""

    hidden: tuple[int, ...]
    activation: str
    n_in: int
    classes: int

    @property
    def net(self) -> MLP:
        """The network, critically initialised."""
        return MLP(self.hidden, self.activation, n_out=self.classes)

    def start(self, seed: int) -> Float[np.ndarray, " parameters"]:
        """The weights of a random network in a row."""
        return np.asarray(ravel_pytree(self.net.init(jax.random.key(seed), self.n_in))[0])

    def params(self, weights: np.ndarray) -> PyTree:
        """Weights in a row as the network's parameters."""
        return ravel_pytree(self.net.init(jax.random.key(0), self.n_in))[1](jnp.asarray(weights))

    def specimen(self, weights: np.ndarray, data: Clusters) -> Specimen:
        """A network with these weights, to be measured on data."""
        return specimen(self.net, *data, params=self.params(weights))


class Programs(NamedTuple):
    """Compiled functions of weights in a row, x and y."""

    outputs: Callable
    gradient: Callable
    hessian: Callable
    noisy_descent: Callable
    decayed_descent: Callable


def mean_cross_entropy(outputs: Float[Array, "n out"], y: Int[Array, " n"]) -> Float[Array, ""]:
    """Avg_i -log softmax(f_i)_{y_i}."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=1))


@lru_cache
def programs(architecture: Architecture) -> Programs:
    """The compiled functions of a network, made once."""
    net = architecture.net
    _, as_params = ravel_pytree(net.init(jax.random.key(0), architecture.n_in))

    def outputs(weights, x):
        return net.apply(as_params(weights), x)

    def loss(weights, x, y):
        return mean_cross_entropy(outputs(weights, x), y)

    def noisy_descent(weights, x, y, key, eta, amplitude, batch, records, every):
        """w - eta (g + amplitude (g of a random batch - g)); the weights after each `every` steps."""

        def step(w, chosen):
            g, g_batch = jax.grad(loss)(w, x, y), jax.grad(loss)(w, x[chosen], y[chosen])
            return w - eta * (g + amplitude * (g_batch - g)), None

        def stretch(w, batches):
            w, _ = jax.lax.scan(step, w, batches)
            return w, w

        batches = jax.random.randint(key, (records, every, batch), 0, len(x))
        return jax.lax.scan(stretch, weights, batches)[1]

    def decayed_descent(weights, x, y, eta, decay, records, every):
        """Adam on loss + decay |w|^2 / 2, its step falling to zero by a cosine; weights at the records."""
        optimiser = optax.adam(optax.cosine_decay_schedule(eta, records * every))

        def step(state, _):
            w, memory = state
            gradient = jax.grad(loss)(w, x, y) + decay * w
            change, memory = optimiser.update(gradient, memory, w)
            return (w + change, memory), None

        def stretch(state, _):
            state, _ = jax.lax.scan(step, state, None, length=every)
            return state, state[0]

        return jax.lax.scan(stretch, (weights, optimiser.init(weights)), None, length=records)[1]

    return Programs(
        jax.jit(outputs),
        jax.jit(jax.grad(loss)),
        jax.jit(jax.hessian(loss)),
        jax.jit(noisy_descent, static_argnums=(6, 7, 8)),
        jax.jit(decayed_descent, static_argnums=(5, 6)),
    )
