"""Lazy training: the scale of the outputs turns a network into a kernel method, or lets it learn features."""

import functools
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.architecture.models.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults
from finitewidth.networks.training.weight_space import train_weights

X = np.array([-1.7, -1.1, -0.5, 0.2, 0.8, 1.5])
Y = np.sin(2.2 * X) + 0.3 * X
GRID = np.linspace(-2.2, 2.2, 89)
SCAN = 2.0 ** np.arange(-1, 7)
ALPHAS = 2.0 ** np.linspace(-1, 6, 57)
ACTIVATION, GAIN, SEED, WIDEST = "tanh", 2.0, 0, 256
SCALES = {"ntk": "NTK: outputs over √n", "mean-field": "mean field: outputs over n"}

CONTROLS = (
    Slider("alpha", "Scale α of the outputs", -1, 6, 0.25, 1.0, log2=True),
    Slider("width", "Width n", 3, 8, 1, 32, log2=True),
    Choice("scaling", "Parametrisation", tuple(SCALES.items()), "ntk"),
)
ALL = ("alpha", "width", "scaling")


@functools.cache
def all_neurons() -> RandomNeurons:
    """The widest hidden layer; narrower ones have its first neurons."""
    return RandomNeurons.draw(jax.random.key(SEED), 1, WIDEST, ACTIVATION, GAIN)


def neurons(width: int) -> RandomNeurons:
    """Output and input weights of a network before training."""
    every = all_neurons()
    return RandomNeurons(every.a[:width], every.w[:width], every.activation)


def output_size(width: int, scaling: str) -> float:
    """Size of the outputs; those of the mean field are smaller, and its rates n times as large."""
    return 1.0 if scaling == "ntk" else 1 / np.sqrt(width)


# ---- theory ----------------------------------------------------------------------------------------


class Twin(NamedTuple):
    """The linearised network after training, and the first order in 1/alpha beyond it.

    `linear` and `correction` are functions on the grid, `motion` is how far the weights move at alpha = 1,
    relative to their length.
    """

    linear: np.ndarray
    correction: np.ndarray
    motion: float


@functools.lru_cache(maxsize=64)
def twin(width: int, scaling: str) -> Twin:
    """Kernel regression with the tangent kernel of this network, and its nearly-kernel correction."""
    layer, size = neurons(width), output_size(width, scaling)
    A, B = layer.at(X[:, None]), layer.at(GRID[:, None])
    start, start_grid = (size * part.value @ layer.a / np.sqrt(width) for part in (A, B))
    k = layer.kernel(A, A)
    mu_A, mu_BAA, mu_ABA = (NeuronMetaKernel(layer, points) for points in ((A, A, A), (B, A, A), (A, B, A)))
    with warnings.catch_warnings():
        # At alpha = 1 the correction may be large: that is what the page is about.
        warnings.simplefilter("ignore", UserWarning)
        machine = fw.nearly_kernel(
            k, layer.kernel(B, A), mu_A, mu_BAA, mu_ABA, Y, fw.GradientFlow(), start=(start, start_grid)
        )
    missing = Y - start
    motion = np.sqrt(missing @ np.linalg.solve(k, missing) / (np.sum(layer.a**2) + np.sum(layer.w**2)))
    return Twin(
        np.asarray(machine.linear)[:, 0],
        np.asarray(machine.correction)[:, 0] / size,
        float(motion) / size,
    )


def draw_function(state: State) -> Picture:
    """The lazy twin, and what the first order in 1/alpha adds."""
    alpha = float(state["alpha"])
    found = twin(int(state["width"]), str(state["scaling"]))
    bent = found.linear + found.correction / alpha
    gap = float(np.sqrt(np.mean((bent - found.linear) ** 2)))
    return {
        "layers": [
            charts.line(GRID, found.linear, "lazy twin, α = ∞", 2, dash="dash"),
            charts.theory(GRID, bent, "first order in 1/α", 0),
            charts.data(X, Y, "training data"),
        ],
        "x": charts.axis("x", [GRID[0], GRID[-1]]),
        "y": charts.axis("f(x)", [-2.5, 2.5]),
        "alt": f"At α = {alpha:g} the trained network differs from its linearised twin by {gap:.2f}, "
        "root mean square, to first order in 1/α.",
    }


def draw_orders(state: State) -> Picture:
    """Distance from the twin and motion of the weights against alpha."""
    found, alpha = twin(int(state["width"]), str(state["scaling"])), float(state["alpha"])
    gap, motion = float(np.sqrt(np.mean(found.correction**2))), found.motion
    return {
        "layers": [
            charts.theory(ALPHAS, gap / ALPHAS, "distance from the lazy twin", 0),
            charts.theory(ALPHAS, motion / ALPHAS, "motion of the weights", 3),
            charts.rule(x=alpha, text="α", dash="dot"),
        ],
        "x": charts.axis("scale α", [0.95 * ALPHAS[0], 1.05 * ALPHAS[-1]], log=True, ticks=SCAN),
        "y": charts.axis("after training", [1e-3, 10], log=True, ticks=(0.001, 0.01, 0.1, 1, 10)),
        "alt": f"Distance from the lazy twin {gap / alpha:.3f} and relative motion of the weights "
        f"{motion / alpha:.3f} at α = {alpha:g}; both fall as 1/α.",
        "numbers": [
            ["from the twin", f"{gap / alpha:.2g}", "first order in 1/α, root mean square"],
            ["weights move by", f"{100 * motion / alpha:.2g} %", "of their length"],
            [
                "regime",
                _regime(gap / alpha),
                "beyond the first order" if gap / alpha >= 0.05 else "the first order is enough",
            ],
        ],
    }


def _regime(gap: float) -> str:
    """In words: the first order is good where it is a few hundredths of the labels."""
    return "lazy" if gap < 0.01 else "nearly lazy" if gap < 0.05 else "learns features"


# ---- real networks ---------------------------------------------------------------------------------


def hidden_layer(params: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    """The network written out: output weights a, input weights w, in the NTK parametrisation."""
    a, w = params
    inputs = jnp.column_stack([x, jnp.ones(len(x))]) / jnp.sqrt(2.0)
    return (jnp.tanh(inputs @ w.T) @ a / jnp.sqrt(len(a)))[:, None]


def trained(width: int, scaling: str, alpha: float, order: int | None = None) -> tuple[np.ndarray, float]:
    """The network (order None) or its twin (1) after gradient flow: its function, and the relative motion."""
    layer, size = neurons(width), output_size(width, scaling)
    params = jnp.asarray(layer.a), jnp.asarray(layer.w)
    model = fw.TangentModel(hidden_layer, params, order, 1.0, 1 / (alpha * size))
    # The model keeps its start; that of the mean field is smaller, which other labels make up for.
    surplus, surplus_grid = (
        (1 - size) * np.asarray(hidden_layer(params, jnp.asarray(x)[:, None]))[:, 0] for x in (X, GRID)
    )
    end = train_weights(model.at(X[:, None]), Y + surplus, fw.GradientFlow(), model.zeros())
    function = np.asarray(model(end.weights, GRID[:, None]))[:, 0] - surplus_grid
    lengths = [np.linalg.norm(np.concatenate([np.ravel(part) for part in tree])) for tree in (
        jax.tree.map(jnp.subtract, model.params_of(end.weights), params), params
    )]  # fmt: skip
    return function, float(lengths[0] / lengths[1])


def pieces(state: State) -> Iterator[Picture]:
    """Train the network at this alpha, its twin, and the network at all other alphas."""
    width, scaling, alpha = int(state["width"]), str(state["scaling"]), float(state["alpha"])
    here, _ = trained(width, scaling, alpha)
    points = charts.measured(GRID[2::6], here[2::6], "network", 1)
    shown: dict[str, list[Picture]] = {"function": [points]}
    total = len(SCAN) + 2
    yield {"done": 1, "of": total, "figures": shown}
    lazy, _ = trained(width, scaling, 1.0, order=1)
    yield {"done": 2, "of": total, "figures": shown}
    gaps, motions = [], []
    for i, scale in enumerate(SCAN):
        function, motion = trained(width, scaling, float(scale))
        gaps.append(np.sqrt(np.mean((function - lazy) ** 2)))
        motions.append(motion)
        scales = SCAN[: i + 1]
        shown = {
            "function": [points],
            "orders": [
                charts.measured(scales, np.array(gaps), "network and twin, trained", 1),
                charts.measured(scales, np.array(motions), "", 1),
            ],
        }
        yield {"done": i + 3, "of": total, "figures": shown}


def code(state: State) -> str:
    """The twin and its correction by `fw.nearly_kernel`, and the network by `train_weights`."""
    numbers = lambda values: ", ".join(f"{v:.6g}" for v in values)
    width, size = int(state["width"]), output_size(int(state["width"]), str(state["scaling"]))
    return f"""import jax
import jax.numpy as jnp
import numpy as np
import finitewidth as fw
from finitewidth.architecture.models import NeuronMetaKernel, RandomNeurons
from finitewidth.networks import train_weights

x = np.array([{numbers(X)}])[:, None]
y = np.array([{numbers(Y)}])
grid = np.linspace(-2.2, 2.2, 12)[:, None]
every = RandomNeurons.draw(jax.random.key({SEED}), 1, {WIDEST}, {ACTIVATION!r}, {GAIN})
layer = RandomNeurons(every.a[:{width}], every.w[:{width}], every.activation)
size = {size:.6g}  # of the outputs: 1, or 1/sqrt(n) in the mean field
epsilon = 1 / ({state["alpha"]} * size)  # 1/alpha

# Theory: kernel regression with the tangent kernel of this network, and the first order in 1/alpha.
A, B = layer.at(x), layer.at(grid)
start, start_grid = (size * part.value @ layer.a / np.sqrt({width}) for part in (A, B))
metas = [NeuronMetaKernel(layer, points) for points in ((A, A, A), (B, A, A), (A, B, A))]
flow = fw.GradientFlow()
machine = fw.nearly_kernel(
    layer.kernel(A, A), layer.kernel(B, A), *metas, y, flow, start=(start, start_grid)
)
print("lazy twin:  ", machine.linear[:, 0])
print("first order:", (machine.linear + epsilon * machine.correction)[:, 0])


# The network itself, trained.
def hidden_layer(params, x):
    a, w = params
    inputs = jnp.column_stack([x, jnp.ones(len(x))]) / jnp.sqrt(2.0)
    return (jnp.tanh(inputs @ w.T) @ a / jnp.sqrt(len(a)))[:, None]


params = (jnp.asarray(layer.a), jnp.asarray(layer.w))
network = fw.TangentModel(hidden_layer, params, epsilon=epsilon)
more, more_grid = ((1 - size) * hidden_layer(params, jnp.asarray(points))[:, 0] for points in (x, grid))
end = train_weights(network.at(x), y + more, flow, network.zeros())
print("network:    ", network(end.weights, grid)[:, 0] - more_grid)
"""


def warm() -> None:
    """Compute what the default state shows."""
    draw_orders(defaults(CONTROLS))


PAGE = Page(
    slug="lazy",
    order=7,
    title="Lazy or learning",
    idea="Multiply the outputs of a network by α. If α is large, tiny steps of the weights fit the data, and "
    "the network follows its linearised twin, a kernel method. If α is small its features move: it leaves "
    "the twin, and in the end the first order in 1/α, too.",
    formula=r"""\begin{aligned}
f_\alpha(W) &= f(\theta_0)
+ \alpha \left[f\!\left(\theta_0 + \tfrac{1}{\alpha} W\right) - f(\theta_0)\right] \\
f_\alpha(W^*) &= f_{\text{twin}} + \frac{1}{\alpha}\, z^I + O(\alpha^{-2}) \\
|\theta - \theta_0| &= |W^*| / \alpha
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("function", "The network and its twin", ALL, draw_function),
        Figure("orders", "How lazy?", ALL, draw_orders),
    ),
    experiment=Experiment("function", "Train networks", ALL, pieces),
    code=code,
    claims=(
        "lazy-alpha-orders",
        "lazy-doubled-init",
        "lazy-init-scale",
        "lazy-versus-mean-field",
        "mf-feature-motion",
        "lr-transfer",
    ),
    warm=warm,
)
