"""Real networks as nearly-kernel machines, and as Taylor models of growing order."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.models.tangent_model import TangentModel
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each, depth_over_width
from finitewidth.course._lab.estimate import Estimate, exact, jackknife, propagated, stacked
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.shapes.orders import Curve, Orders, fitted_power, off_by, order_claim
from finitewidth.course._lab.sources import IEMS_402, ROBERTS
from finitewidth.course._lab.wrong import scaled
from finitewidth.nearly_kernel_methods.model_prediction import nearly_kernel_machine
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.tangent.taylor import expand
from finitewidth.networks.training.training import train
from finitewidth.report.style import Figure

_SOURCE = f"{ROBERTS}, quadratic models and deep learning"


_DISTANCE = "typical distance of the outputs"


def _frame(rng: np.random.Generator, points: int) -> np.ndarray:
    """Random orthogonal inputs of unit mean square, as many as their entries: a well-conditioned kernel."""
    return np.sqrt(points) * np.linalg.qr(rng.normal(size=(points, points)))[0]


def _lazy_data(setting: Orders) -> tuple[Layer, PyTree, Array, Array, Array]:
    """A small network with two outputs, and a few points."""
    net = equal_layers(setting.features, 1, "tanh", 0.1, 1.3, n_out=2)
    rng, n_in = setting.rng(0), setting.train
    x, x_test = _frame(rng, n_in), rng.normal(size=(setting.test, n_in))
    y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    params = net.init(jax.random.key(setting.seed), n_in)
    return net, params, jnp.asarray(x), jnp.asarray(y), jnp.asarray(x_test)


def _curvatures(net: Layer, params: PyTree, x: Array) -> np.ndarray:
    """Eigenvalues of the tangent kernel, the smallest first."""
    kernel = np.asarray(empirical_ntk(net, params, x)).transpose(2, 0, 3, 1)
    size = kernel.shape[0] * kernel.shape[1]
    return np.linalg.eigvalsh(kernel.reshape(size, size))


def _steps_to_the_end(curvatures: np.ndarray) -> int:
    """Steps of 1 / lambda_max that leave e^-36 of the slowest mode; a power of two, to share programs."""
    return 2 ** int(np.ceil(np.log2(36 * curvatures[..., -1] / curvatures[..., 0]).max()))


def _lazy_theory(setting: Orders, epsilon: float) -> dict[str, Array]:
    net, params, x, y, x_test = _lazy_data(setting)
    model = TangentModel(net.apply, params, rates=net.learning_rates(setting.train), epsilon=epsilon)
    machine = nearly_kernel_machine(model, x, y, x_test, GradientDescent())
    return {"NTK and dNTK": machine.prediction, "NTK alone": machine.linear}


def _lazy_measure(setting: Orders, epsilon: float) -> dict[str, Array]:
    """Gradient descent on the network itself, made lazy by a factor in front of its change."""
    net, params, x, y, x_test = _lazy_data(setting)
    curvatures = _curvatures(net, params, x)
    steps, eta = _steps_to_the_end(curvatures), float(1 / curvatures[-1])
    move = lambda p: jax.tree.map(lambda start, now: start + epsilon * (now - start), params, p)

    def lazy(p: PyTree, points: Array) -> Array:
        start = net.apply(params, points)
        return start + (net.apply(move(p), points) - start) / epsilon

    rates = net.learning_rates(setting.train)
    run = train(lazy, params, x, y, steps=steps, learning_rate=eta, rates=rates, record_every=steps)
    return {"outputs": lazy(run.params, x_test)}


@dataclass(frozen=True)
class Widths(RandomProblem):
    """Tanh networks of growing width on a few points, and their Taylor models trained beside them."""

    widths: tuple[int, ...]
    draws: int
    steps: int = 40
    eta: float = 0.2
    hidden_layers: int = 1
    points: int = 4

    def net(self, n: int) -> Layer:
        return equal_layers(n, self.hidden_layers, "tanh", 0.0, 1.0)

    @property
    def data(self) -> tuple[Array, Array, Array]:
        train_key, test_key = jax.random.split(jax.random.key(self.seed))
        x = jax.random.normal(train_key, (self.points, 3))
        return x, jnp.sin(x[:, :1]) + 0.5 * x[:, 1:2], jax.random.normal(test_key, (3, 3))

    def theory(self) -> Prediction:
        return {name: np.array(slope) for name, slope in _SLOPES.items()}

    def measure(self, key) -> Measurement:
        x, y, x_test = self.data
        gaps: dict[str, list[Estimate]] = {name: [] for name in _MODELS}
        for n in self.widths:
            net = self.net(n)
            rates = jax.tree.map(jnp.asarray, net.learning_rates(3))

            @jax.jit
            def gap(draw_key, net=net, rates=rates, eta=self.eta):
                params = net.init(draw_key, 3)
                real = _descend(net.apply, params, rates, (x, y, x_test), eta, self.steps)
                models = [expand(net, params, order) for order in _MODELS.values()]
                ends = [_descend(model, params, rates, (x, y, x_test), eta, self.steps) for model in models]
                return jnp.stack([jnp.sqrt(jnp.mean((end - real) ** 2)) for end in ends])

            found = np.asarray(jax.vmap(gap)(jax.random.split(jax.random.fold_in(key, n), self.draws)))
            for i, name in enumerate(_MODELS):
                gaps[name].append(jackknife(np.log(found[:, i]), np.exp))
        curves = {name: stacked(values) for name, values in gaps.items()}
        return {f"{name} gap": curve for name, curve in curves.items()} | {
            name: _power_of_width(self.widths, curve) for name, curve in curves.items()
        }

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        laws = {
            rf"{name} model: $n^{{{predicted[name]:g}}}$": (measured[f"{name} gap"], predicted[name])
            for name in _MODELS
        }
        return power_laws("A wide network is a cubic model", self.widths, laws, r"width $n$", _DISTANCE)


_MODELS = {"linear": 1, "quadratic": 2, "cubic": 3}
_SLOPES = {"linear": -1.0, "quadratic": -1.0, "cubic": -2.0}


def _descend(
    function: Callable, params: PyTree, rates: PyTree, data, eta: float | Array, steps: int
) -> Array:
    """Test outputs after a number of steps of gradient descent."""
    x, y, x_test = data

    def step(p, _):
        gradient = jax.grad(lambda q: 0.5 * jnp.sum((function(q, x) - y) ** 2))(p)
        return jax.tree.map(lambda a, r, g: a - eta * r * g, p, rates, gradient), None

    return function(lax.scan(step, params, None, length=steps)[0], x_test)


def _power_of_width(widths: tuple[int, ...], gaps: Estimate) -> Estimate:
    """Networks of different width are drawn independently."""
    return propagated(lambda values: fitted_power(np.array(widths, float), values), gaps)


def _bend(depth: int, widths: tuple[int, ...]) -> float:
    """What the next order, a relative change by depth/width, does to a power fitted to these widths."""
    return float(depth_over_width(depth, widths[0]) / np.log(widths[-1] / widths[0]))


@dataclass(frozen=True)
class Machines(RandomProblem):
    """Networks of growing width, trained to the end, against the formula at their initialisation."""

    widths: tuple[int, ...]
    draws: int
    points: int = 4

    def net(self, n: int) -> Layer:
        return equal_layers(n, 1, "tanh", 0.1, 1.0)

    @property
    def data(self) -> tuple[Array, Array, Array]:
        rng = self.rng()
        x, x_test = _frame(rng, self.points), rng.normal(size=(6, self.points))
        y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2]
        return jnp.asarray(x), jnp.asarray(y), jnp.asarray(x_test)

    def params(self, n: int) -> list[PyTree]:
        """Networks of this width at their start."""
        keys = jax.random.split(jax.random.fold_in(jax.random.key(self.seed), n), self.draws)
        every = jax.device_get(jax.vmap(lambda key: self.net(n).init(key, self.points))(keys))
        return [jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), every) for i in range(self.draws)]

    def theory(self) -> Prediction:
        x, y, x_test = self.data
        found: dict[str, list] = {"NTK alone": [], "NTK and dNTK": []}
        for n in self.widths:
            net = self.net(n)
            rates = net.learning_rates(self.points)
            models = [TangentModel(net.apply, p, rates=rates) for p in self.params(n)]
            machines = [nearly_kernel_machine(model, x, y, x_test, GradientDescent()) for model in models]
            found["NTK alone"].append([np.asarray(m.linear) for m in machines])
            found["NTK and dNTK"].append([np.asarray(m.prediction) for m in machines])
        return {name: np.array(values) for name, values in found.items()} | {"slope": np.array(-1.0)}

    def measure(self, key) -> Measurement:
        data, ends = self.data, []
        for n in self.widths:
            net, draws = self.net(n), self.params(n)
            rates = jax.tree.map(jnp.asarray, net.learning_rates(self.points))
            curvatures = np.array([_curvatures(net, params, data[0]) for params in draws])
            steps = _steps_to_the_end(curvatures)
            run = lambda p, eta, net=net, rates=rates, steps=steps: _descend(
                net.apply, p, rates, data, eta, steps
            )
            every = jax.tree.map(lambda *leaves: jnp.stack(leaves), *draws)
            ends.append(np.asarray(jax.jit(jax.vmap(run))(every, jnp.asarray(1 / curvatures[:, -1]))))
        return {"outputs": exact(np.array(ends))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name in ("NTK alone", "NTK and dNTK"):
            power = _power_of_width(self.widths, _machine_gaps(predicted, measured, name))
            bend = _bend(2, self.widths)
            yield absolute_error(f"power of the width, {name}", predicted["slope"], power, bend)

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        names = ("NTK alone", "NTK and dNTK")
        laws = {
            f"{name}: $1/n$": (_machine_gaps(predicted, measured, name), predicted["slope"]) for name in names
        }
        title = "Trained networks and the formula at their initialisation"
        return power_laws(title, self.widths, laws, r"width $n$", _DISTANCE)


def _machine_gaps(predicted: Prediction, measured: Measurement, name: str) -> Estimate:
    """Geometric mean over draws of the rms distance of the test outputs."""
    squares = np.mean((predicted[name] - measured["outputs"].value) ** 2, axis=(2, 3))
    return stacked([jackknife(np.log(row) / 2, np.exp) for row in squares])


CLAIMS = (
    order_claim(
        _lazy_theory,
        _lazy_measure,
        (Curve("NTK and dNTK", 2), Curve("NTK alone", 1)),
        id="network-nearly-kernel",
        title="a lazy network is a nearly-kernel machine",
        statement="""For a network made lazy, z + (z(theta + eps d) - z)/eps, the formula with its NTK and
        dNTK at initialisation misses the end of gradient descent by second order in epsilon, the NTK alone by
        first.""",
        source=f"{_SOURCE}; {IEMS_402}, lazy training",
        quick=Orders(0.02, 3, train=3, test=4, features=16),
        full=Orders(0.02, 4, train=3, test=4, features=32),
        wrong={"NTK and dNTK": off_by(1)},
    ),
    Claim(
        id="network-machine-width",
        title="the formula misses a wide network by 1/n",
        statement="""At width n the NTK of a network predicts its trained outputs up to order 1/n, and so does
        the nearly-kernel formula with its dNTK: terms with two second derivatives and with the third are of
        the same order 1/n.""",
        source=f"{_SOURCE} (quadratic models are minimal, not complete)",
        quick=Machines((64, 2048), draws=64),
        full=Machines((64, 128, 256, 512, 1024), draws=150),
        wrong={"slope": scaled(0.5)},
    ),
    Claim(
        id="mlp-cubic-model",
        title="to order 1/n a network behaves as a cubic model",
        statement="""Trained side by side, a network differs from its linear and its quadratic Taylor model by
        order 1/n, and from its cubic one by 1/n^2.""",
        source=f"{_SOURCE} (with the output of the start, which the slide leaves out)",
        quick=Widths((256, 4096), draws=100),
        full=Widths((256, 512, 1024, 2048, 4096), draws=100),
        compare=compare_each(
            {name: f"power of the width, {name} model" for name in _MODELS},
            absolute_error,
            lambda setting, _: _bend(setting.hidden_layers + 1, setting.widths),
        ),
        wrong={"cubic": scaled(0.5), "quadratic": scaled(2.0)},
    ),
)
