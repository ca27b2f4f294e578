"""The steady state of stochastic gradient descent: what noise and step leave around a minimum."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, z_score
from finitewidth.course._lab.estimate import jackknife, sample_mean
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.stochastic_gradients.networks.fluctuation_dissipation import fluctuation_dissipation
from finitewidth.course.stochastic_gradients.networks.noisy_steps import bernoulli_descent, chain_covariance
from finitewidth.course.stochastic_gradients.theory.batches import batch_factors
from finitewidth.course.stochastic_gradients.theory.least_squares import least_squares_steady_state
from finitewidth.course.stochastic_gradients.theory.steady_state import steady_covariance
from finitewidth.course.stochastic_gradients.theory.valleys import valley_variance

_LECTURE = orf_543("11/16")


@dataclass(frozen=True)
class Relations(RandomProblem):
    """Linear regression in small batches, solved and simulated, and a small network with weight decay.

    The step is a part of a step that is surely stable: 2/(lambda_max + max|x|^2/b).
    """

    chains: int
    steps: int
    network_chains: int = 32
    network_steps: int = 3000
    points: int = 8
    features: int = 2
    batch_size: int = 2
    part: float = 0.7
    width: int = 4
    decay: float = 0.02

    @functools.cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = self.rng(0)
        return rng.normal(size=(self.points, self.features)), rng.normal(size=self.points)

    @property
    def eta(self) -> float:
        x = self.data[0]
        largest = np.linalg.eigvalsh(x.T @ x / len(x))[-1]
        return float(2 * self.part / (largest + np.sum(x**2, axis=1).max() / self.batch_size))

    def theory(self) -> Prediction:
        state = least_squares_steady_state(
            *self.data, batch_size=self.batch_size, eta=self.eta, sampling="bernoulli"
        )
        return {
            "dissipation": np.array(state.dissipation),
            "fluctuation": self.eta / 2 * np.trace(state.gradient_moment),
            "tensor": self.eta * state.gradient_moment,
            "ratio": np.array(1.0),
        }

    def measure(self, key) -> Measurement:
        walk_key, net_key = jax.random.split(key)
        run = bernoulli_descent(
            random_generator(walk_key), *self.data, self.eta, self.batch_size, self.chains, self.steps
        )
        left = run.position_gradient
        return {
            "dissipation": sample_mean(np.trace(left, axis1=1, axis2=2)),
            "fluctuation": sample_mean(self.eta / 2 * np.trace(run.squares, axis1=1, axis2=2)),
            "tensor": sample_mean(left + left.transpose(0, 2, 1)),
            "ratio": self.trained(net_key).ratio,
        }

    def trained(self, key):
        """A network with one hidden tanh layer, trained with batches of an eighth of its points."""
        rng = self.rng(1)
        x = rng.normal(size=(32, 2))
        data = x, np.sin(2 * x[:, 0]) + 0.5 * rng.normal(size=32)
        params = [jnp.asarray(rng.normal(size=shape)) for shape in ((2, self.width), self.width, self.width)]

        def loss(params, batch):
            w, b, a = params
            error = jnp.tanh(batch[0] @ w + b) @ a - batch[1]
            return 0.5 * jnp.mean(error**2) + self.decay / 2 * sum(jnp.sum(p**2) for p in params)

        eta = 0.1
        return fluctuation_dissipation(
            loss,
            params,
            data,
            batch_size=4,
            learning_rate=eta,
            steps=self.network_steps,
            burn_in=int(8 / (eta * self.decay)),
            key=key,
            chains=self.network_chains,
        )

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            z_score("(theta - theta*).grad L", predicted["dissipation"], measured["dissipation"]),
            z_score("eta/2 of the squared gradient", predicted["fluctuation"], measured["fluctuation"]),
            z_score("theta_i d_j L + theta_j d_i L", predicted["tensor"], measured["tensor"]),
            z_score("ratio of both sides, trained network", predicted["ratio"], measured["ratio"]),
        ]


def _covariance_instead(setting: Relations, value: np.ndarray) -> np.ndarray:
    """The covariance of the gradient of a batch in the place of its second moment."""
    state = least_squares_steady_state(
        *setting.data, batch_size=setting.batch_size, eta=setting.eta, sampling="bernoulli"
    )
    h = state.hessian
    return np.asarray(value - setting.eta / 2 * np.trace(h @ state.covariance @ h))


def _realised_size(setting: Relations, value: np.ndarray) -> np.ndarray:
    """Sums divided by the size of the batch at hand, where an empty batch makes no step."""
    empty = (1 - setting.batch_size / setting.points) ** setting.points
    return np.asarray(value / (1 - empty))


@dataclass(frozen=True)
class NoiseAndHessian(RandomProblem):
    """Linear regression on many Gaussian points, residuals of one size or in proportion to |x_1|."""

    data_sets: int
    batches: int
    points: int = 2000
    features: int = 4

    def drawn_points(self, part: int, points: int, uneven: bool = False) -> tuple[np.ndarray, np.ndarray]:
        rng = self.rng(part)
        x, noise = rng.normal(size=(points, self.features)), rng.normal(size=points)
        return x, noise * np.abs(x[:, 0]) if uneven else noise

    def theory(self) -> Prediction:
        d, m = self.features, self.points
        x, y = self.drawn_points(0, m)
        residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        own = batch_factors(m // 2, m, "bernoulli").own
        # Kurtosis 3 of the residuals; E|x|^4 = d (d + 2); one direction is used up by alpha.
        departure = np.sqrt(2 * (d + 2) * (1 - 1 / d) / m)
        uneven = 2 * np.sqrt((1 - 1 / d) / (d + 8))
        return {
            "alpha": np.array(own * np.mean(residual**2)),
            "departure": np.array(departure),
            "uneven departure": np.array(uneven),
        }

    def measure(self, key) -> Measurement:
        rng, m = random_generator(key), self.points
        x, y = self.drawn_points(0, m)
        errors = x @ np.linalg.lstsq(x, y, rcond=None)[0] - y
        slopes = (rng.random((self.batches, m)) < 0.5) @ (errors[:, None] * x) / (m / 2)
        squares = np.sum(slopes**2, axis=1) / np.trace(x.T @ x / m)
        even = [departure(*self.drawn_points(1 + i, m)) for i in range(self.data_sets)]
        uneven = [departure(*self.drawn_points(1001 + i, 4 * m, True)) for i in range(self.data_sets)]
        return {
            "alpha": sample_mean(squares),
            "departure": jackknife(np.square(even), np.sqrt),
            "uneven departure": sample_mean(np.array(uneven)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # tr C/tr H scatters around alpha by sqrt(4/(d m)) from data set to data set: five times that.
        room = 10 / np.sqrt(self.features * self.points)
        return [
            relative_error(
                "alpha, half of the points in a batch", predicted["alpha"], measured["alpha"], room
            ),
            relative_error("root mean square departure", predicted["departure"], measured["departure"], 0.1),
            absolute_error(
                "departure with uneven residuals",
                predicted["uneven departure"],
                measured["uneven departure"],
                0.05,
            ),
        ]


def departure(x: np.ndarray, y: np.ndarray) -> float:
    """|C - alpha H| / |C| at the minimum, with the best alpha."""
    h = x.T @ x / len(x)
    errors = x @ np.linalg.solve(h, x.T @ y / len(x)) - y
    c = (x.T * errors**2) @ x / len(x)
    return float(np.linalg.norm(c - np.sum(c * h) / np.sum(h * h) * h) / np.linalg.norm(c))


@dataclass(frozen=True)
class Valley(RandomProblem):
    """Walls of several curvatures with noise in proportion, and a bowl with any noise."""

    chains: int
    steps: int
    curvatures: tuple[float, ...] = (0.5, 2.0, 6.0, 12.0)
    alpha: float = 0.7
    eta: float = 0.1
    dimension: int = 4

    @functools.cached_property
    def bowl(self) -> tuple[np.ndarray, np.ndarray]:
        """A Hessian with eigenvalues between 0.5 and 12 in random directions, and a noise covariance."""
        rng = self.rng(0)
        axes = np.linalg.qr(rng.normal(size=(self.dimension, self.dimension)))[0]
        h = (axes * rng.uniform(0.5, 12, self.dimension)) @ axes.T
        root = rng.normal(size=(self.dimension, self.dimension))
        return (h + h.T) / 2, root @ root.T

    def theory(self) -> Prediction:
        return {
            "walls": valley_variance(np.array(self.curvatures), self.alpha, self.eta),
            "bowl": np.asarray(steady_covariance(*self.bowl, self.eta)),
        }

    def measure(self, key) -> Measurement:
        rng = random_generator(key)
        walls = np.array(self.curvatures)
        found = {}
        noisy = {"walls": (np.diag(walls), np.diag(np.sqrt(self.alpha * walls)))}
        noisy["bowl"] = self.bowl[0], np.linalg.cholesky(self.bowl[1])
        for name, (h, root) in noisy.items():
            shape = self.chains, len(h)
            moves = lambda at, h=h, root=root: (
                at - self.eta * (at @ h + rng.standard_normal(at.shape) @ root.T)
            )
            burn_in = int(10 / (self.eta * np.linalg.eigvalsh(h)[0])) + 1
            found[name] = chain_covariance(moves, np.zeros(shape), burn_in, self.steps)
        diagonal = np.arange(len(walls))
        return {"walls": found["walls"][diagonal, diagonal], "bowl": found["bowl"]}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            z_score("variance across a wall", predicted["walls"], measured["walls"]),
            z_score("covariance in a bowl", predicted["bowl"], measured["bowl"]),
        ]


def _leading(setting: Valley, value: np.ndarray) -> np.ndarray:
    return np.full_like(value, setting.alpha * setting.eta / 2)


def _continuous_time(setting: Valley, value: np.ndarray) -> np.ndarray:
    """Lyapunov's equation without its term of second order in the step."""
    values, axes = np.linalg.eigh(setting.bowl[0])
    inside = setting.eta * (axes.T @ setting.bowl[1] @ axes) / (values[:, None] + values)
    return axes @ inside @ axes.T


CLAIMS = (
    Claim(
        id="fluctuation-dissipation",
        title="weights times gradients balance half the step times squared gradients",
        statement="""In a steady state of stochastic gradient descent with independent batches, at any step,
        (theta - c).grad L averages to eta/2 times the mean squared gradient of a batch, for any fixed c, and
        theta_i d_j L + theta_j d_i L to eta times its second moment. For linear regression with Bernoulli
        batches divided by their mean size both sides follow exactly from a linear recursion, if its spectral
        radius is below one. The ratio of both sides is one for a trained network, too.""",
        source=_LECTURE,
        quick=Relations(chains=2000, steps=500),
        full=Relations(chains=20_000, steps=2000, network_chains=128),
        wrong={
            "fluctuation": (scaled(2.0), _covariance_instead, _realised_size),
            "dissipation": scaled(0.5),
            "tensor": scaled(0.5),
            "ratio": scaled(0.5),
        },
    ),
    Claim(
        id="sgd-noise-proportional-to-hessian",
        title="in a well-specified regression gradient noise is proportional to the Hessian",
        statement="""For least squares, (1/2m) times the sum of squares, with residuals whose variance does
        not depend on the input, the covariance of the gradient of a Bernoulli batch of mean size b out of m
        is alpha H with alpha = (1 - b/m) Var(r)/b, up to a relative departure sqrt(2 (d + 2)(1 - 1/d)/m)
        for d Gaussian inputs and Gaussian residuals. Residuals in proportion to |x_1| break it: the
        departure is then 2 sqrt((1 - 1/d)/(d + 8)) for any number of points.""",
        source=f"{_LECTURE} (an assumption there)",
        quick=NoiseAndHessian(data_sets=60, batches=3000),
        full=NoiseAndHessian(data_sets=400, batches=20_000, points=8000),
        wrong={
            "alpha": (scaled(2.0), scaled(4.0)),
            "departure": (scaled(0.5), scaled(2.0)),
            "uneven departure": scaled(0.0),
        },
    ),
    Claim(
        id="sgd-valley-variance",
        title="fluctuations across a valley do not depend on how steep it is",
        statement="""With loss h t^2/2 and gradient noise of variance alpha h the stationary variance of t is
        alpha eta/(2 - eta h): alpha eta/2 for small steps, whatever the curvature h. For any Hessian H and
        noise covariance C it solves the discrete Lyapunov equation
        S = (1 - eta H) S (1 - eta H) + eta^2 C.""",
        source=_LECTURE,
        quick=Valley(chains=3000, steps=200),
        full=Valley(chains=40_000, steps=500),
        wrong={"walls": (scaled(0.5), _leading), "bowl": (_continuous_time, scaled(0.9))},
    ),
)
