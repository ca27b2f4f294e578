"""Training of networks whose kernel moves slightly, step by step: the oracle of the 1/n corrections.

Random small tensors stand for those of a network; averages over initial outputs are exact cubatures.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.statistics.first_order.corrections import Corrections
from finitewidth.statistics.first_order.differentials import Differentials

_NODES = np.array([-np.sqrt(3), 0.0, np.sqrt(3)])
_WEIGHTS = np.array([1, 4, 1]) / 6


def symmetrised(tensor, *permutations):
    """Average over the group that the permutations of axes generate."""
    group = {tuple(range(tensor.ndim))}
    while True:
        grown = group | {tuple(g[i] for i in p) for g in group for p in permutations}
        if grown == group:
            return sum(tensor.transpose(g) for g in group) / len(group)
        group = grown


def random_tensors(rng, points):
    """Tensors with the symmetries of a network's; the width is left out."""
    four = lambda *permutations: symmetrised(rng.normal(size=(points,) * 4), *permutations)
    two = lambda: jnp.asarray(symmetrised(rng.normal(size=(points,) * 2), (1, 0)))
    fluctuations = {
        "V": four((1, 0, 2, 3), (2, 3, 0, 1)),
        "D": four((1, 0, 2, 3), (0, 1, 3, 2)),
        "F": four((2, 3, 0, 1)),
        "A": four((1, 0, 2, 3), (2, 3, 0, 1)),
        "B": four((2, 3, 0, 1), (1, 0, 3, 2)),
    }
    differentials = Differentials(
        P=four((0, 2, 1, 3)),
        Q=four(),
        R=four((0, 1, 3, 2)),
        S=four((1, 0, 3, 2)),
        T=four((2, 3, 0, 1)),
        U=four((2, 3, 0, 1)),
    )
    return Corrections(
        K=two(),
        Theta=two(),
        G1=two(),
        H1=two(),
        width=1,
        differentials=differentials,
        **{name: jnp.asarray(tensor) for name, tensor in fluctuations.items()},
    )


def kernels(rng, points):
    """A positive definite pair K, Theta."""
    a, b = rng.normal(size=(2, points, points + 2))
    return a @ a.T / points, b @ b.T / points + 0.2 * np.eye(points)


def descend(z, H, dH, I, J, y, eta, steps):
    """Steps of gradient descent on all outputs; the training labels come first."""
    n = len(y)

    def step(_, state):
        z, H, dH = state
        e = z[:n] - y
        on = lambda tensor, *vectors: _contracted(tensor, n, vectors)
        change = -eta * on(H, e) + eta**2 / 2 * on(dH, e, e) - eta**3 / 6 * on(I, e, e, e)
        first = on(dH, e)
        second = on(I, e, e)
        dH_step = -eta * (on(I, e) + on(J, e) + jnp.swapaxes(on(J, e), 1, 2))
        H = H - eta * (first + first.T) + eta**2 / 2 * (second + second.T + 2 * on(J, e, e))
        return z + change, H, dH + dH_step

    return jax.lax.fori_loop(0, steps, step, (z, jnp.asarray(H), dH))[0]


def _contracted(tensor, n, vectors):
    """Contract the last legs, restricted to training labels, with as many vectors."""
    for vector in vectors[::-1]:
        tensor = tensor[..., :n] @ vector
    return tensor


def initial_outputs(K):
    """Points and weights that average every polynomial of degree five in the initial outputs exactly."""
    root = np.linalg.cholesky(K)
    count = len(K)
    nodes = np.array(list(itertools.product(_NODES, repeat=count)))
    weights = np.prod(list(itertools.product(_WEIGHTS, repeat=count)), axis=1)
    return nodes @ root.T, weights


class Oracle:
    """First derivatives, in the size of the tensors, of the trained mean and covariance."""

    def __init__(self, K, Theta, y, eta, steps):
        self.K, self.Theta, self.y, self.eta, self.steps = K, Theta, y, eta, steps
        self.z, self.weights = initial_outputs(K)

    def _trained(self, z, H=None, dH=None, I=None, J=None):
        p = len(self.K)
        zero = lambda tensor, order: jnp.zeros((p,) * order) if tensor is None else tensor
        H = self.Theta if H is None else self.Theta + H
        return descend(z, H, zero(dH, 3), zero(I, 4), zero(J, 4), self.y, self.eta, self.steps)

    def _moments(self, part):
        """Slopes in s of mean and covariance, for tensors s * part(z)."""

        def outputs(s):
            return jax.vmap(lambda z: self._trained(z, **{k: s * v for k, v in part(z).items()}))(self.z)

        value, slope = jax.jvp(outputs, (0.0,), (1.0,))
        value, slope = np.asarray(value), np.asarray(slope)
        centred = value - self.weights @ value
        mean = self.weights @ slope
        cross = np.einsum("s,sa,sb->ab", self.weights, slope - mean, centred)
        return mean, cross + cross.T

    def mean_kernel(self, H1):
        return self._moments(lambda z: {"H": H1})

    def start(self, G1):
        """What a shift of the initial covariance does to the trained one."""
        trained = jax.jacfwd(self._trained)(jnp.zeros(len(self.K)))
        return np.asarray(trained @ G1 @ trained.T)

    def correlated_kernel(self, zzH):
        """A kernel fluctuation that is quadratic in the initial outputs, with E[z z DH] = zzH."""
        inverse = np.linalg.inv(self.K)
        C = np.einsum("ai,bj,ijcd->abcd", inverse, inverse, zzH) / 2
        return self._moments(lambda z: {"H": jnp.einsum("abcd,ab->cd", C, jnp.outer(z, z) - self.K)})

    def moving_kernel(self, dz):
        """A dNTK that is linear in the initial outputs, with E[dH z] = dz."""
        inverse = np.linalg.inv(self.K)
        return self._moments(lambda z: {"dH": dz @ (inverse @ z)})

    def second_change(self, I, J):
        return self._moments(lambda z: {"I": I, "J": J})

    def fluctuating_kernel(self, HH):
        """Second derivatives along the principal directions of the kernel's covariance."""
        p = len(self.K)
        values, vectors = np.linalg.eigh(HH.reshape(p * p, p * p))
        mean, covariance = 0.0, 0.0
        for value, vector in zip(values, vectors.T, strict=True):
            if abs(value) > 1e-12:
                first, second = self._along(vector.reshape(p, p))
                mean = mean + value * self.weights @ second / 2
                centred = self.base - self.weights @ self.base
                cross = np.einsum("s,sa,sb->ab", self.weights, second / 2, centred)
                covariance = covariance + value * (cross + cross.T)
                covariance = covariance + value * np.einsum("s,sa,sb->ab", self.weights, first, first)
        return mean, covariance

    def _along(self, direction):
        if not hasattr(self, "_second_order"):
            outputs = lambda s, B: jax.vmap(lambda z: self._trained(z, H=s * B))(self.z)

            @jax.jit
            def second_order(B):
                value = lambda s: outputs(s, B)
                slope = lambda s: jax.jvp(value, (s,), (1.0,))
                (base, first), (_, second) = jax.jvp(slope, (0.0,), (1.0,))
                return base, first, second

            self._second_order = second_order
        self.base, first, second = (np.asarray(a) for a in self._second_order(direction))
        return first, second
