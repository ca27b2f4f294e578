"""Rescaled ReLU networks: which rates keep the path of the function, and the balance that flow conserves."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.optimiser_geometry.networks.rescaling import balance, train_rescaled
from finitewidth.course.optimiser_geometry.networks.steepest_descent import steepest_descent
from finitewidth.course.optimiser_geometry.theory.rescaling import balance_change, equivariant_rates
from finitewidth.networks.training.training import train
from finitewidth.report.style import Figure


def two_layers(params: PyTree, x: Array) -> Array:
    """ReLU neurons with weights into them (n, d) and out of them (1, n)."""
    return jnp.maximum(x @ params[0].T, 0) @ params[1].T


@dataclass(frozen=True)
class Neurons(RandomProblem):
    """A two-layer ReLU network without biases on a few points."""

    neurons: int = 6
    points: int = 12
    n_in: int = 3

    @property
    def start(self) -> tuple[np.ndarray, np.ndarray]:
        rng = self.rng(0)
        sizes = np.sqrt(self.n_in), np.sqrt(self.neurons)
        return (
            rng.normal(size=(self.neurons, self.n_in)) / sizes[0],
            rng.normal(size=(1, self.neurons)) / sizes[1],
        )

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = self.rng(1)
        return rng.normal(size=(self.points, self.n_in)), rng.normal(size=(self.points, 1))

    def gradients(self, into: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of half the sum of squared errors, by hand: (neurons, d) and (neurons, 1)."""
        x, y = self.data
        before = x @ into.T
        hidden = np.maximum(before, 0)
        residual = hidden @ out.T - y
        return (residual * out * (before > 0)).T @ x, hidden.T @ residual


_OPTIMISERS = {"gradient": "l2", "entrywise": "linf", "spectral": "spectral"}


@dataclass(frozen=True)
class Rescaled(Neurons):
    """Weights times s into the neurons and 1/s out of them, with rates times powers of the factors."""

    factor: float = 5.0
    steps: int = 50
    # Rescaling makes the loss up to s^2 times as sharp.
    rate: float = 0.02

    powers = (0, 1, 2)

    def theory(self) -> Prediction:
        """The power of the factors by which rates must change, and the change of both gradients."""
        found = [equivariant_rates((self.factor,), geometry)[0] for geometry in _OPTIMISERS]
        ratios = np.array([1 / self.factor, self.factor])
        return {"powers": np.log(found) / np.log(self.factor), "gradients": ratios}

    def measure(self, key) -> Measurement:
        s = self.factor
        before, after = (self.gradients(self.start[0] * f, self.start[1] / f) for f in (1.0, s))
        ratios = [np.vdot(a, b) / np.vdot(b, b) for a, b in zip(after, before, strict=True)]
        gaps = np.array([[self._gap(norm, p) for p in self.powers] for norm in _OPTIMISERS.values()])
        return {
            "gaps": exact(gaps),
            "gradients": exact(np.array(ratios)),
            "powers": exact(np.array(self.powers)[np.argmin(gaps, axis=1)]),
            "smallest gap": exact(gaps.min(axis=1)),
            "next gap": exact(np.sort(gaps, axis=1)[:, 1]),
        }

    def _gap(self, norm: str, power: int) -> float:
        s = self.factor
        optimiser = steepest_descent(self.rate / s**2, norm, dual_factor=norm == "l2")
        return train_rescaled(
            two_layers,
            self.start,
            (s, 1 / s),
            *self.data,
            steps=self.steps,
            optimizer=optimiser,
            rates=1.0,
            rate_factors=(s**power, s**-power),
        ).gap

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error(
                "power of the factors in the rates", predicted["powers"], measured["powers"], 1e-9
            ),
            absolute_error(
                "gradients after over before", predicted["gradients"], measured["gradients"], 1e-12
            ),
            upper_bound("difference of outputs with these rates", 1e-12, measured["smallest gap"]),
            upper_bound("a thousandth over it with any other", 1.0, 1e-3 / measured["next gap"].value),
        ]


@dataclass(frozen=True)
class Balance(Neurons):
    """Gradient descent with falling steps over one stretch of time."""

    etas: tuple[float, ...] = (1e-2, 1e-3)
    time: float = 10.0

    def theory(self) -> Prediction:
        into, out = self.start
        eta = self._units * self.etas[0]
        change = balance_change(*self.gradients(into, out), eta)
        return {"one step": np.asarray(change), "exponent": np.array(1.0)}

    @property
    def _units(self) -> float:
        """One over the largest eigenvalue of the tangent kernel at the start."""
        into, out = self.start
        x, _ = self.data
        before = x @ into.T
        gates, hidden = (before > 0) * out, np.maximum(before, 0)
        kernel = (gates @ gates.T) * (x @ x.T) + hidden @ hidden.T
        return float(1 / np.linalg.eigvalsh(kernel)[-1])

    def measure(self, key) -> Measurement:
        x, y = self.data
        start = jax.tree.map(jnp.asarray, self.start)
        before = np.asarray(balance(*start))

        def change(eta: float, steps: int) -> np.ndarray:
            run = train(
                two_layers, start, x, y, steps=steps, learning_rate=eta * self._units, record_every=steps
            )
            return np.asarray(balance(*run.params)) - before

        drifts = [np.linalg.norm(change(eta, round(self.time / eta))) for eta in self.etas]
        return {
            "one step": exact(change(self.etas[0], 1)),
            "drifts": exact(np.array(drifts)),
            "exponent": exact(fitted_power(np.array(self.etas), np.array(drifts))),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        one, size = measured["one step"], np.abs(measured["one step"].value).max()
        # The balance is a difference of squares of order one.
        rounding = 1e-14 + 1e-10 * size
        return [
            absolute_error("change of the balance in one step", predicted["one step"], one, rounding),
            absolute_error(
                "power of the step in the drift", predicted["exponent"], measured["exponent"], 0.03
            ),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        laws = {"drift of the balance": (measured["drifts"], predicted["exponent"])}
        labels = r"step $\eta\lambda$", r"change of $|w_j|^2-v_j^2$, all neurons"
        return power_laws("Descent breaks the balance by an order of the step", self.etas, laws, *labels)


def _powers_exchanged(setting: Rescaled, value: np.ndarray) -> np.ndarray:
    """Squares for sign descent and Muon, first powers for gradient descent."""
    return 3 - value


_SOURCE = f"{IEMS_402}, optimisers"

CLAIMS = (
    Claim(
        id="relu-rescale",
        title="rescaled ReLU networks train as the same function with rates s^2 or s, never with equal rates",
        statement="""Weights s w into ReLU neurons and v/s out of them are the same function, with gradients
        g/s and s g. Trained side by side, both networks stay the same function when the rates of the two
        layers are multiplied by (s^2, s^-2) for gradient descent and by (s, 1/s) for sign descent and for
        orthogonalised steps. With equal rates none of the three does.""",
        source=f"{_SOURCE} (the question for Adam and Muon, answered)",
        quick=Rescaled(),
        full=Rescaled(neurons=20, points=40, steps=400),
        wrong={"powers": (_powers_exchanged, scaled(0.0)), "gradients": scaled(-1.0)},
    ),
    Claim(
        id="relu-balance-law",
        title="gradient flow keeps |w|^2 - v^2 of a ReLU neuron, descent breaks it by an order of the step",
        statement="""A step of gradient descent changes |w_j|^2 - v_j^2 of a ReLU neuron by exactly eta^2
        (|g_w|^2 - g_v^2). Over a fixed time of training the change is proportional to eta, from a hundredth
        of the stability limit down, and gradient flow conserves the balance.""",
        source=_SOURCE,
        quick=Balance(),
        full=Balance(neurons=20, points=40, etas=(1e-2, 3e-3, 1e-3, 3e-4), time=30.0),
        wrong={"exponent": scaled(2.0), "one step": scaled(0.0)},
    ),
)
