"""The Hessian of a classifier's loss: its two parts, their ranks, and the Fisher matrix."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled, shifted

_SOURCE = orf_543("10/3")
Matrix = Float[np.ndarray, "p p"]


@dataclass(frozen=True)
class Classifier(RandomProblem):
    """A random network with one hidden layer of tanh units, on random points with random labels."""

    points: int = 40
    n_in: int = 5
    width: int = 8
    classes: int = 4

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many weights and biases there are below and above the hidden units."""
        return self.n_in * self.width, self.width, self.width * self.classes, self.classes

    @property
    def weights(self) -> Float[np.ndarray, " p"]:
        """All parameters in a row."""
        return self.rng(0).normal(size=sum(self.sizes)) * 0.7

    @property
    def x(self) -> Float[np.ndarray, "points n_in"]:
        """Inputs."""
        return self.rng(1).normal(size=(self.points, self.n_in))

    @property
    def labels(self) -> Float[np.ndarray, "points classes"]:
        """One in the column of the true class."""
        return np.eye(self.classes)[self.rng(2).integers(0, self.classes, self.points)]

    def outputs(self, weights: Array) -> Array:
        """The network itself, at parameters in a row."""
        net = MLP((self.width,), "tanh", C_b=0.0, C_W=1.0, n_out=self.classes)
        unravel = ravel_pytree(net.init(jax.random.key(self.seed), self.n_in))[1]
        return net.apply(unravel(weights), jnp.asarray(self.x))

    def cross_entropy(self, weights: Array, labels: Array) -> Array:
        """Mean loss for probabilities of labels."""
        return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(self.outputs(weights)), axis=1))


class Expansion:
    """Outputs f_ik = sum_j v_kj tanh(w_j x_i + b_j) + c_k with both derivatives by the weights, by hand."""

    def __init__(self, net: Classifier):
        w, b, v, c = np.split(net.weights, np.cumsum(net.sizes)[:-1])
        w, v = w.reshape(net.width, net.n_in), v.reshape(net.classes, net.width)
        h = np.tanh(net.x @ w.T + b)
        slope, bend = 1 - h**2, -2 * h * (1 - h**2)
        N, C, n, d = net.points, net.classes, net.width, net.n_in
        inputs = np.concatenate([net.x, np.ones((N, 1))], axis=1)
        # Of unit j: its weights and its bias; of output k: the weight from unit j, and its bias.
        below = np.concatenate([np.arange(n * d).reshape(n, d), (n * d + np.arange(n))[:, None]], axis=1)
        above = n * d + n + np.arange(C * n).reshape(C, n)
        last = n * d + n + C * n + np.arange(C)
        self.outputs = h @ v.T + c
        self.jacobian = np.zeros((N, C, len(net.weights)))
        self.second = np.zeros((N, C, len(net.weights), len(net.weights)))
        for k in range(C):
            self.jacobian[:, k, above[k]], self.jacobian[:, k, last[k]] = h, 1.0
            for j in range(n):
                unit = below[j]
                self.jacobian[:, k, unit] = v[k, j] * slope[:, j, None] * inputs
                pairs = inputs[:, :, None] * inputs[:, None, :]
                self.second[:, k, unit[:, None], unit] = v[k, j] * bend[:, j, None, None] * pairs
                mixed = slope[:, j, None] * inputs
                self.second[:, k, unit, above[k, j]] = self.second[:, k, above[k, j], unit] = mixed
        shifted_outputs = self.outputs - self.outputs.max(axis=1, keepdims=True)
        self.p = np.exp(shifted_outputs) / np.exp(shifted_outputs).sum(axis=1, keepdims=True)
        self.labels = net.labels

    def gauss_newton(self) -> Matrix:
        """Avg_i J_i^T (diag p_i - p_i p_i^T) J_i."""
        curved = (
            np.einsum("ka,ia->ika", np.eye(self.p.shape[1]), self.p) - self.p[:, :, None] * self.p[:, None]
        )
        return np.einsum("ikp,ika,iaq->pq", self.jacobian, curved, self.jacobian) / len(self.p)

    def model_curvature(self) -> Matrix:
        """Avg_i sum_k (p_ik - y_ik) d2f_ik."""
        return np.einsum("ik,ikpq->pq", self.p - self.labels, self.second) / len(self.p)

    def empirical_fisher(self) -> Matrix:
        """Avg_i g_i g_i^T at the true labels."""
        gradients = np.einsum("ik,ikp->ip", self.p - self.labels, self.jacobian)
        return gradients.T @ gradients / len(self.p)


def parts(net: Classifier) -> tuple[Matrix, Matrix]:
    """Gauss-Newton part and model curvature, by their formulas."""
    expansion = Expansion(net)
    return expansion.gauss_newton(), expansion.model_curvature()


def measured_hessian(net: Classifier, labels: np.ndarray | None = None) -> Matrix:
    """The Hessian by automatic differentiation of the whole loss."""
    labels = net.labels if labels is None else labels
    return np.asarray(jax.hessian(net.cross_entropy)(jnp.asarray(net.weights), jnp.asarray(labels)))


def compare_hessians(setting: Classifier, predicted: Prediction, measured: Measurement) -> Checks:
    """Entry by entry."""
    return [absolute_error("entries of the Hessian", predicted["hessian"], measured["hessian"], 1e-10)]


@dataclass(frozen=True)
class Ranks(RandomProblem):
    """Gauss-Newton matrices of growing numbers of points, for three losses."""

    counts: tuple[int, ...] = (1, 2, 5, 10, 20, 40)
    threshold: float = 1e-9

    def net(self, points: int, classes: int = 4) -> Classifier:
        """The network on so many points."""
        return Classifier(points=points, classes=classes, seed=self.seed)

    def theory(self) -> Prediction:
        N, several, one = np.array(self.counts), self.net(1), self.net(1, 1)
        p = sum(several.sizes)
        # Softmax does not see what all rows of the last layer, and all its biases, have in common.
        seen = p - several.width - 1
        return {
            "cross-entropy": np.minimum(seen, N * (several.classes - 1)),
            "squared error": np.minimum(p, N * several.classes),
            "one output": np.minimum(sum(one.sizes), N),
            "hessian": np.array([1.0]),
        }

    def measure(self, key) -> Measurement:
        derivatives = {classes: self.derivatives(classes) for classes in (4, 1)}
        p, jacobian = derivatives[4]
        # With R = (1 - 1 p^T) J and the roots of p as weights, J^T (diag p - p p^T) J = R^T diag(p) R.
        centred = jacobian - np.einsum("ik,ikp->ip", p, jacobian)[:, None]
        whitened = np.sqrt(p)[:, :, None] * centred
        factors = {"cross-entropy": whitened, "squared error": jacobian, "one output": derivatives[1][1]}
        found = {
            name: np.array(
                [rank(factor[:N].reshape(-1, factor.shape[-1]), self.threshold) for N in self.counts]
            )
            for name, factor in factors.items()
        }
        beyond = (
            rank(measured_hessian(self.net(2)), self.threshold) > found["cross-entropy"][self.counts.index(2)]
        )
        return {name: exact(ranks) for name, ranks in found.items()} | {"hessian": exact(np.array([beyond]))}

    def derivatives(self, classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and Jacobian of the network at all points."""
        net = self.net(max(self.counts), classes)
        weights = jnp.asarray(net.weights)
        return np.asarray(jax.nn.softmax(net.outputs(weights))), np.asarray(
            jax.jacobian(net.outputs)(weights)
        )

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "cross-entropy": "rank of G, cross-entropy",
            "squared error": "rank of G, squared error",
            "one output": "rank of G, one output",
            "hessian": "whether H of two points has a larger rank",
        }
        return [absolute_error(text, predicted[name], measured[name], 0.1) for name, text in texts.items()]


def rank(matrix: np.ndarray, threshold: float) -> int:
    """Singular values above a share of the largest."""
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(sizes > threshold * sizes[0]))


@dataclass(frozen=True)
class Fisher(RandomProblem):
    """A classifier, with labels that go from the true ones to the probabilities of the network itself."""

    shares: tuple[float, ...] = (1.0, 0.5, 0.2, 0.05, 0.0)

    @property
    def net(self) -> Classifier:
        """The network."""
        return Classifier(seed=self.seed)

    def theory(self) -> Prediction:
        gauss_newton, curvature = parts(self.net)
        return {"fisher": gauss_newton, "distance": np.array(self.shares) * np.linalg.norm(curvature)}

    def measure(self, key) -> Measurement:
        net = self.net
        weights = jnp.asarray(net.weights)
        p = np.asarray(jax.nn.softmax(net.outputs(weights)))
        # Row i, column k: the gradient of -log p_k at point i.
        slopes = -np.asarray(jax.jacobian(lambda w: jax.nn.log_softmax(net.outputs(w)))(weights))
        fisher = np.einsum("ik,ikp,ikq->pq", p, slopes, slopes) / net.points
        hessians = [measured_hessian(net, p + share * (net.labels - p)) for share in self.shares]
        distances = [np.linalg.norm(hessian - fisher) for hessian in hessians]
        return {"fisher": exact(fisher), "distance": exact(np.array(distances))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("entries of the Fisher matrix", predicted["fisher"], measured["fisher"], 1e-12),
            absolute_error(
                "distance between Hessian and Fisher matrix",
                predicted["distance"],
                measured["distance"],
                1e-12,
            ),
        ]


def _by_points(setting: Ranks, value: np.ndarray) -> np.ndarray:
    return np.minimum(sum(setting.net(1).sizes), np.array(setting.counts))


def _by_outputs(setting: Ranks, value: np.ndarray) -> np.ndarray:
    return np.minimum(sum(setting.net(1).sizes), 4 * np.array(setting.counts))


CLAIMS = (
    Claim(
        id="gauss-newton-split",
        title="the Hessian is a Gauss-Newton part and a part weighted with the residuals",
        statement="""The Hessian of a mean loss is H = G + E, with G = Avg_i J_i^T (d2l/df2) J_i from the
        first derivatives of the outputs and E = Avg_i sum_k (dl/df_k) d2f_k/dtheta2 from the second, each
        weighted with its residual. G alone is the Hessian of the linearised network.""",
        source=_SOURCE,
        quick=Classifier(),
        full=Classifier(points=120, width=16),
        theory=lambda setting: {"hessian": np.add(*parts(setting))},
        measure=lambda setting, key: {"hessian": exact(measured_hessian(setting))},
        compare=compare_hessians,
        wrong={
            "hessian": (
                lambda setting, value: parts(setting)[0],
                lambda setting, value: parts(setting)[0] - parts(setting)[1],
                lambda setting, value: setting.points * value,
            )
        },
    ),
    Claim(
        id="hessian-rank",
        title="the data limit the rank of the Gauss-Newton matrix, not the rank of the Hessian",
        statement="""For N points and C outputs the Gauss-Newton matrix has rank N (C - 1) under
        cross-entropy, N C under the squared error and N for a single output, until the parameters that the
        loss can see run out. The Hessian has no such limit while there are residuals: its rank on two points
        is larger.""",
        source=_SOURCE,
        quick=Ranks(),
        full=Ranks(counts=(1, 2, 3, 5, 8, 12, 20, 25, 30, 40, 80)),
        wrong={
            "cross-entropy": (_by_points, _by_outputs),
            "squared error": _by_points,
            "one output": scaled(2.0),
            "hessian": shifted(-1.0),
        },
        figure=Curves("counts", "points N"),
    ),
    Claim(
        id="fisher-is-gauss-newton",
        title="the Fisher matrix of a classifier is its Gauss-Newton matrix",
        statement="""With labels drawn from the network's own probabilities, the mean of g g^T over gradients
        g of -log p is the Gauss-Newton matrix G under cross-entropy. The Hessian differs from it by the model
        curvature, which is proportional to the residuals. Gradients at the true labels alone give another
        matrix, and no inverse or sign comes in.""",
        source=_SOURCE,
        quick=Fisher(),
        full=Fisher(shares=(1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05, 0.0)),
        wrong={
            "fisher": (
                lambda setting, value: Expansion(setting.net).empirical_fisher(),
                lambda setting, value: -np.linalg.pinv(value, rcond=1e-10),
                scaled(40.0),
            ),
            "distance": (scaled(0.0), lambda setting, value: np.sqrt(np.array(setting.shares)) * value[0]),
        },
        figure=Curves("shares", "share of the residuals"),
    ),
)
