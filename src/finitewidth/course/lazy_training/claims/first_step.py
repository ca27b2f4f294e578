"""The first step of training, and what it costs the linearisation: the number kappa."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.lazy_training.networks.one_hidden_sum import tanh_neurons
from finitewidth.measure.loss.kappa import Kappa, kappa


@dataclass(frozen=True)
class FirstSteps(RandomProblem):
    """A few tanh neurons, and one step of several sizes, in units of 1/|Dh|^2.

    Labels are random, or such that the gradient points where the differential turns fastest. The second needs
    more points than weights.
    """

    steps: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    neurons: int = 8
    points: int = 40
    n_in: int = 3

    @functools.cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Weights, inputs and both kinds of labels."""
        rng = self.rng(0)
        rows, x = rng.normal(size=(self.neurons, self.n_in + 1)), rng.normal(size=(self.points, self.n_in))
        points = jnp.asarray(x)
        flat = lambda w: tanh_neurons(w.reshape(rows.shape), points)[:, 0]
        second = np.asarray(jax.jacfwd(jax.jacrev(flat))(jnp.asarray(rows.ravel())))
        fastest = np.linalg.svd(second.reshape(-1, rows.size), full_matrices=False)[2][0]
        outputs, jacobian = _by_hand(rows, x)
        residual = np.linalg.lstsq(jacobian.T, fastest, rcond=None)[0]
        residual = residual * np.sqrt(self.points) / np.linalg.norm(residual)
        return rows, x, (rng.normal(size=self.points), outputs - residual)

    @functools.cached_property
    def at_start(self) -> list[tuple[Kappa, np.ndarray]]:
        """Kappa by automatic differentiation for both kinds of labels, and the steps."""
        rows, x, labels = self.start
        found = [kappa(tanh_neurons, rows, x, y[:, None]) for y in labels]
        return [(one, np.array(self.steps) / one.first**2) for one in found]

    def theory(self) -> Prediction:
        residuals = [np.linalg.norm(found.outputs - found.labels) for found, _ in self.at_start]
        return {
            "loss": np.array([[-found.loss_change(eta) for eta in etas] for found, etas in self.at_start]),
            "differential": np.array(
                [[found.differential_change(eta) for eta in etas] for found, etas in self.at_start]
            ),
            "ratio": np.array(
                [
                    found.value / 2 * found.first * residual / found.gradient
                    for (found, _), residual in zip(self.at_start, residuals, strict=True)
                ]
            ),
        }

    @property
    def next_order(self) -> np.ndarray:
        """eta times a bound on the Hessian of the loss, |Dh|^2 + |h - y| |D^2 h|, for labels and steps."""
        return np.array(
            [
                etas * (found.first**2 + np.linalg.norm(found.outputs - found.labels) * found.second)
                for found, etas in self.at_start
            ]
        )

    def measure(self, key) -> Measurement:
        rows, x, labels = self.start
        outputs, jacobian = _by_hand(rows, x)
        size, changes = np.linalg.norm(jacobian, 2), []
        for y in labels:
            gradient, loss = jacobian.T @ (outputs - y), np.sum((outputs - y) ** 2) / 2
            for eta in np.array(self.steps) / size**2:
                moved, bent = _by_hand(rows - eta * gradient.reshape(rows.shape), x)
                after = np.sum((moved - y) ** 2) / 2
                changes.append((after / loss - 1, np.linalg.norm(bent - jacobian) / size))
        losses, differentials = np.array(changes).reshape(len(labels), -1, 2).transpose(2, 0, 1)
        return {"loss": exact(losses), "differential": exact(differentials)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        loss, differential = measured["loss"], measured["differential"]
        small = self.next_order * (1 + self.next_order)
        most, ratio = predicted["differential"] * (1 + small), predicted["ratio"][:, None] * (1 + small)
        return [
            relative_error("relative change of the loss", predicted["loss"], loss, small / 2, "next order"),
            upper_bound("change of the differential", most, differential),
            upper_bound("the same over the loss's", ratio, -differential.value / loss.value),
        ]


def _by_hand(rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (points,) and Jacobian (points, parameters) of tanh neurons."""
    hidden = np.tanh(x @ rows[:, :-1].T)
    root = np.sqrt(len(rows))
    inner = ((1 - hidden**2) * rows[:, -1])[:, :, None] * x[:, None, :]
    jacobian = np.concatenate([inner, hidden[:, :, None]], axis=2) / root
    return hidden @ rows[:, -1] / root, jacobian.reshape(len(x), -1)


def relu_chain(weights: tuple[Array, ...], x: Array) -> Array:
    """A ReLU network without biases, homogeneous of a degree that is the number of its matrices."""
    for matrix in weights[:-1]:
        x = jnp.maximum(x @ matrix.T, 0)
    return x @ weights[-1].T


@dataclass(frozen=True)
class Homogeneous(RandomProblem):
    """ReLU networks of degree 2 and 3 at multiples of their weights, as drawn and with paired outputs."""

    multiples: tuple[float, ...]
    width: int = 4
    points: int = 4
    n_in: int = 3

    degrees = (2, 3)

    def network(self, degree: int, *, doubled: bool) -> tuple[np.ndarray, ...]:
        """Matrices; doubled networks have every last neuron twice, with opposite output weights."""
        rng, n = self.rng(degree), self.width
        shapes = [(n, self.n_in), *[(n, n)] * (degree - 2), (1, n)]
        *inner, last = (rng.normal(size=shape) / np.sqrt(shape[1]) for shape in shapes)
        if doubled:
            inner[-1], last = np.concatenate([inner[-1]] * 2), np.concatenate([last, -last], axis=1)
        return (*inner, last)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and labels."""
        rng = self.rng(0)
        return rng.normal(size=(self.points, self.n_in)), rng.normal(size=(self.points, 1))

    def theory(self) -> Prediction:
        x, y = self.data
        values = []
        for q in self.degrees:
            h, jacobian, second = _differences(self.network(q, doubled=False), x)
            ratio = np.linalg.norm(second, 2) / np.linalg.norm(jacobian, 2) ** 2
            at = np.array(self.multiples)[:, None] ** q
            values.append(np.linalg.norm(h - y[:, 0] / at, axis=1) * ratio)
        return {"kappa": np.array(values), "exponent": -np.array(self.degrees, float)}

    def measure(self, key) -> Measurement:
        x, y = self.data

        def values(q: int, *, doubled: bool) -> list[float]:
            start = self.network(q, doubled=doubled)
            return [kappa(relu_chain, tuple(m * w for w in start), x, y).value for m in self.multiples]

        paired = [values(q, doubled=True) for q in self.degrees]
        return {
            "kappa": exact(np.array([values(q, doubled=False) for q in self.degrees])),
            "exponent": exact(
                np.array([fitted_power(np.array(self.multiples), np.array(v)) for v in paired])
            ),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            relative_error("kappa at multiples of the weights", predicted["kappa"], measured["kappa"], 1e-6),
            absolute_error("exponent with opposite pairs", predicted["exponent"], measured["exponent"], 1e-6),
        ]


def _differences(weights: tuple[np.ndarray, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs, Jacobian and second derivative as a matrix (points times params, params), by differences.

    While no gate moves the output is linear in each single weight: differences of first and of mixed second
    order are exact, and the diagonal of the second derivative is zero.
    """
    flat, sizes = np.concatenate([w.ravel() for w in weights]), [w.size for w in weights]
    ends = np.cumsum(sizes)[:-1]
    gates = []
    below = x
    for matrix in weights[:-1]:
        gates.append(below @ matrix.T > 0)
        below = (below @ matrix.T) * gates[-1]

    def outputs(rows: np.ndarray) -> np.ndarray:
        """(..., params) to (..., points), with the gates of the start."""
        parts = np.split(rows, ends, axis=-1)
        matrices = [p.reshape(*rows.shape[:-1], *w.shape) for p, w in zip(parts, weights, strict=True)]
        found = np.broadcast_to(x, (*rows.shape[:-1], *x.shape))
        for matrix, gate in zip(matrices[:-1], gates, strict=True):
            found = (found @ np.swapaxes(matrix, -1, -2)) * gate
        return (found @ np.swapaxes(matrices[-1], -1, -2))[..., 0]

    units = np.eye(len(flat))
    h, one = outputs(flat), outputs(flat + units)
    two = outputs(flat + units[:, None] + units[None])
    mixed = two - one[:, None] - one[None] + h
    mixed[np.arange(len(flat)), np.arange(len(flat))] = 0
    return h, (one - h).T, np.moveaxis(mixed, -1, 0).reshape(-1, len(flat))


def _as_if_outputs_vanished(setting: Homogeneous, value: np.ndarray) -> np.ndarray:
    """A pure power of the multiple."""
    q = np.array(setting.degrees)[:, None]
    return value[:, :1] * (np.array(setting.multiples) / setting.multiples[0]) ** -q


def _two_for_three(setting: Homogeneous, value: np.ndarray) -> np.ndarray:
    """The exponent of two layers for three."""
    return np.full_like(value, -2.0)


_SOURCE = f"{IEMS_402}, lazy training"

CLAIMS = (
    Claim(
        id="lazy-one-step",
        title="one small step: the loss falls at first order, the differential turns less",
        statement="""A step of gradient descent on F = |h - y|^2/2 changes F by the share -eta |grad F|^2/F,
        up to eta/2 times the largest eigenvalue of the Hessian, and Dh by at most the share eta |grad F|
        |D^2h|/|Dh|, with Frobenius' norm of the change; for labels whose gradient points where Dh turns
        fastest it does. The second over the first is at most kappa/2 times |Dh| |h - y|/|grad F|, with
        kappa = |h - y| |D^2h|/|Dh|^2.""",
        source=f"{_SOURCE} (a sign, a factor 1/2 and the alignment put right)",
        quick=FirstSteps(),
        full=FirstSteps(steps=(1e-2, 1e-3, 1e-4, 1e-5), neurons=20, points=100),
        figure=Curves("steps", r"step $\eta|Dh|^2$", lambda setting: ("random labels", "fastest turn")),
        bounds={"differential": "above", "ratio": "above"},
        wrong={"loss": (scaled(0.5), scaled(-1.0)), "differential": scaled(0.9), "ratio": scaled(0.9)},
    ),
    Claim(
        id="kappa-homogeneous",
        title="larger weights make a homogeneous model lazier, but only down to a limit",
        statement="""For h homogeneous of degree q, kappa at the weights lam w is |h - lam^-q y|
        |D^2h|/|Dh|^2 at w. As lam grows it tends to |h| |D^2h|/|Dh|^2, which is zero only if h(w) = 0; then
        kappa is proportional to lam^-q.""",
        source=f"{_SOURCE} (the limit vanishes only if the outputs do)",
        quick=Homogeneous((0.5, 4.0, 64.0)),
        full=Homogeneous((0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 64.0), width=6, points=5),
        figure=Curves("multiples", r"multiple $\lambda$ of the weights", "degrees", "degree %d"),
        wrong={"kappa": _as_if_outputs_vanished, "exponent": _two_for_three},
    ),
)
