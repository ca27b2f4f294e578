"""The tangent kernel of one hidden layer, and the step that it predicts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.training.training import train
from finitewidth.report.style import Figure
from finitewidth.statistics.wide.kernels import kernels

_SOURCE = orf_543("10/10")


@dataclass(frozen=True)
class OneHiddenLayer(RandomProblem):
    """tanh neurons of one width on random inputs, with the weights of one network."""

    width: int
    draws: int = 0
    gammas: tuple[float, ...] = (0.003, 0.001, 0.0003, 0.0001, 0.00003)
    points: int = 5
    n_in: int = 3

    @property
    def network(self) -> Layer:
        """One hidden layer without biases, in units of weights with variance one."""
        return equal_layers(self.width, 1, "tanh", 0.0, 1.0, lambda_b=0.0)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and labels."""
        rng = self.rng(0)
        return rng.normal(size=(self.points, self.n_in)), rng.normal(size=self.points)

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Unit-variance weights: w of the neurons (n, d), v of the output (n)."""
        rng = self.rng(1)
        return rng.normal(size=(self.width, self.n_in)), rng.normal(size=self.width)


def _neurons(setting: OneHiddenLayer) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes of the neurons, (points, n)."""
    z = setting.data[0] @ setting.weights[0].T / np.sqrt(setting.n_in)
    return np.tanh(z), 1 / np.cosh(z) ** 2


def _kernel_of_neurons(setting: OneHiddenLayer) -> dict[str, Float[np.ndarray, "m m"]]:
    """The sums over neurons: output layer and hidden layer."""
    x, (value, slope) = setting.data[0], _neurons(setting)
    weighted = slope * setting.weights[1] ** 2
    return {
        "output layer": value @ value.T / setting.width,
        "hidden layer": weighted @ slope.T / setting.width * (x @ x.T / setting.n_in),
    }


def _params(setting: OneHiddenLayer):
    """The same weights as parameters of the network."""
    w, v = setting.weights
    start = setting.network.init(jax.random.key(0), setting.n_in)
    hidden = start[0]._replace(weight=jnp.asarray(w / np.sqrt(setting.n_in)))
    return (hidden, start[1]._replace(weight=jnp.asarray(v[None] / np.sqrt(setting.width))))


def _formula_theory(setting: OneHiddenLayer) -> Prediction:
    parts = _kernel_of_neurons(setting)
    mean = kernels(setting.network, setting.data[0]).ntk
    return parts | {"mean": np.asarray(mean)}


def _ntk(net: Layer, params, x):
    return empirical_ntk(net, params, x)[0, 0]


def _formula_measure(setting: OneHiddenLayer, key) -> Measurement:
    net, params, x = setting.network, _params(setting), jnp.asarray(setting.data[0])

    def gram(layer: int) -> np.ndarray:
        def outputs(weight):
            return net.apply(
                (*params[:layer], params[layer]._replace(weight=weight), *params[layer + 1 :]), x
            )

        weight = params[layer].weight
        gradient = np.asarray(jax.jacfwd(outputs)(weight)).reshape(len(x), -1)
        return gradient @ gradient.T / weight.shape[1]

    hidden, output = gram(0), gram(1)
    lowest = np.linalg.eigvalsh(np.stack([hidden, output]))[:, 0].min()
    draws = over_networks(net, setting.data[0], key, setting.draws, _ntk)
    return {
        "hidden layer": exact(hidden),
        "output layer": exact(output),
        "negative part": exact(max(-lowest, 0.0)),
        "mean": sample_mean(draws),
    }


def _formula_compare(setting: OneHiddenLayer, predicted: Prediction, measured: Measurement) -> Checks:
    layers = ("output layer", "hidden layer")
    return [
        *(absolute_error(name, predicted[name], measured[name], 1e-12) for name in layers),
        absolute_error("negative part of both", 0.0, measured["negative part"], 1e-12),
        z_score("mean over networks", predicted["mean"], measured["mean"]),
    ]


def _step_theory(setting: OneHiddenLayer) -> Prediction:
    """Outputs after one step on a frozen kernel, off by the second power of gamma."""
    x, y = setting.data
    kernel = sum(_kernel_of_neurons(setting).values())
    spectrum = Spectrum.of(jnp.asarray(kernel))
    z = _neurons(setting)[0] @ setting.weights[1] / np.sqrt(setting.width)
    steps = [GradientDescent(gamma / len(x), 1) for gamma in setting.gammas]
    after = [y + spectrum.residual_map(step) @ (z - y) for step in steps]
    return {"outputs": np.array(after), "power": np.array(2.0)}


def _step_measure(setting: OneHiddenLayer, key) -> Measurement:
    net, params, (x, y) = setting.network, _params(setting), setting.data
    runs = [
        train(net, params, x, y[:, None], steps=1, learning_rate=gamma / len(x)) for gamma in setting.gammas
    ]
    return {"outputs": exact(np.array([net.apply(run.params, jnp.asarray(x))[:, 0] for run in runs]))}


def _rest(predicted: Prediction, measured: Measurement) -> np.ndarray:
    return np.linalg.norm(measured["outputs"].value - predicted["outputs"], axis=1)


def _step_compare(setting: OneHiddenLayer, predicted: Prediction, measured: Measurement) -> Checks:
    powers = np.diff(np.log(_rest(predicted, measured))) / np.diff(np.log(setting.gammas))
    return [absolute_error("power of gamma in what is left", predicted["power"], powers, 0.05)]


def _step_figure(setting: OneHiddenLayer, predicted: Prediction, measured: Measurement) -> Figure:
    title = "One step follows the tangent kernel up to the square of the step"
    laws = {r"$\propto\gamma^2$": (exact(_rest(predicted, measured)), predicted["power"])}
    return power_laws(title, setting.gammas, laws, r"step $\gamma$", "distance of the outputs")


def _first_layer_weight_squared(setting: OneHiddenLayer, value: np.ndarray) -> np.ndarray:
    """The weight that the notes print in the part of the hidden layer."""
    x, (w, _), (_, slope) = setting.data[0], setting.weights, _neurons(setting)
    return (slope * w[:, 0] ** 2) @ slope.T / setting.width * (x @ x.T / setting.n_in)


def _sum_of_losses(setting: OneHiddenLayer, value: np.ndarray) -> np.ndarray:
    """The step without the 1/m of the mean loss."""
    start = _neurons(setting)[0] @ setting.weights[1] / np.sqrt(setting.width)
    return start + setting.points * (value - start)


CLAIMS = (
    Claim(
        id="two-layer-ntk-formula",
        title="the tangent kernel of one hidden layer is a sum over neurons",
        statement="""For z = n^(-1/2) sum_k v_k sigma(w_k x) the tangent kernel is the mean over neurons of
        sigma_a sigma_b + v^2 sigma'_a sigma'_b (x_a x_b). Both parts are positive semidefinite, and the mean
        over networks is the kernel of infinite width at any width.""",
        source=f"{_SOURCE} (the output weight squared, not that of the first layer)",
        quick=OneHiddenLayer(width=32, draws=2000),
        full=OneHiddenLayer(width=64, draws=40_000, points=8),
        theory=_formula_theory,
        measure=_formula_measure,
        compare=_formula_compare,
        wrong={
            "hidden layer": _first_layer_weight_squared,
            "output layer": scaled(1 + 1e-6),
            "mean": scaled(1.2),
        },
    ),
    Claim(
        id="ntk-one-step",
        title="one step moves the outputs by the tangent kernel",
        statement="""A step gamma on L = |z - y|^2/(2m) moves the outputs by -(gamma/m) K (z - y), with the
        tangent kernel K of the network, up to the second power of gamma.""",
        source=f"{_SOURCE} (with 1/m, and not an equality)",
        quick=OneHiddenLayer(width=32),
        full=OneHiddenLayer(width=64, gammas=(0.003, 0.001, 0.0003, 0.0001, 0.00003, 0.00001), points=8),
        theory=_step_theory,
        measure=_step_measure,
        compare=_step_compare,
        figure=_step_figure,
        wrong={"outputs": _sum_of_losses, "power": scaled(1.5)},
    ),
)
