"""Lazy training: the scale of the outputs turns a network into a kernel method, or lets it learn features."""

import functools
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.networks import train_weights
from finitewidth.serve.page import Experiment, Figure, Page, Picture
from finitewidth.serve.state import Choice, Slider, State, defaults

X = np.array([-1.7, -1.1, -0.5, 0.2, 0.8, 1.5])
Y = np.sin(2.2 * X) + 0.3 * X
GRID = np.linspace(-2.2, 2.2, 89)
SCAN = 2.0 ** np.arange(-1, 7)
ALPHAS = 2.0 ** np.linspace(-1, 6, 57)
C_W, C_B, ACTIVATION = 2.0, 0.5, "tanh"
SCALES = {"ntk": "NTK: outputs of size 1", "mean-field": "mean field: outputs of size 1/√n"}

CONTROLS = (
    Slider("alpha", "Scale α of the outputs", -1, 6, 0.25, 1.0, log2=True),
    Slider("width", "Width n", 3, 8, 1, 32, log2=True),
    Choice("scaling", "Parametrisation", tuple(SCALES.items()), "ntk"),
)


def start_of(width: int, scaling: str) -> tuple[fw.MLP, tuple]:
    """One random network with a hidden layer, the same draw whatever the parametrisation."""
    net = fw.MLP((width,), ACTIVATION, C_b=C_B, C_W=C_W, parametrisation=scaling)
    return net, net.init(jax.random.key(2), 1)


def scaled_network(width: int, scaling: str, alpha: float, order: int | None) -> fw.TangentModel:
    """The network with outputs times alpha, its start unchanged: order None is the network, 1 its twin."""
    net, params = start_of(width, scaling)
    return fw.TangentModel(net.apply, params, order, net.learning_rates(1), 1 / alpha)


# ---- theory ----------------------------------------------------------------------------------------


class Twin(NamedTuple):
    """The linearised network after training, and the first order in 1/alpha beyond it.

    `linear` and `correction` are functions on the grid, `motion` is how far the weights move at alpha = 1,
    relative to their length.
    """

    linear: np.ndarray
    correction: np.ndarray
    motion: float


@functools.lru_cache(maxsize=32)
def twin(width: int, scaling: str) -> Twin:
    """Kernel regression with the tangent kernel of this network, and its nearly-kernel correction."""
    model = scaled_network(width, scaling, 1.0, 2)
    with warnings.catch_warnings():
        # At alpha = 1 the correction may be large: that is what the page is about.
        warnings.simplefilter("ignore", UserWarning)
        machine = fw.nearly_kernel_machine(model, X[:, None], Y, GRID[:, None], fw.GradientFlow())
    at_data = model.at(X[:, None])
    J = np.asarray(at_data.jacobian(model.zeros()))
    missing = Y - np.asarray(at_data(model.zeros()))[:, 0]
    moved = model.moved(jnp.asarray(J.T @ np.linalg.solve(J @ J.T, missing)), 1.0)
    length = lambda tree: np.sqrt(sum(float(jnp.sum(a**2)) for a in jax.tree.leaves(tree)))
    change = jax.tree.map(jnp.subtract, moved, model.params)
    return Twin(
        np.asarray(machine.linear)[:, 0],
        np.asarray(machine.correction)[:, 0],
        length(change) / length(model.params),
    )


def draw_function(state: State) -> Picture:
    """The lazy twin, and what the first order in 1/alpha adds."""
    alpha = float(state["alpha"])
    found = twin(int(state["width"]), str(state["scaling"]))
    bent = found.linear + found.correction / alpha
    gap = float(np.sqrt(np.mean((bent - found.linear) ** 2)))
    return {
        "layers": [
            {
                "role": "lines",
                "x": GRID,
                "y": found.linear,
                "name": "lazy twin, α = ∞",
                "dash": "dash",
                "tone": 2,
            },
            {"role": "theory", "x": GRID, "y": bent, "name": "first order in 1/α", "tone": 0},
            {"role": "data", "x": X, "y": Y, "name": "training data"},
        ],
        "x": {"label": "x", "range": [GRID[0], GRID[-1]]},
        "y": {"label": "f(x)", "range": [-2.5, 2.5]},
        "alt": f"At α = {alpha:g} the trained network differs from its linearised twin by {gap:.2f}, "
        "root mean square, to first order in 1/α.",
    }


def draw_orders(state: State) -> Picture:
    """Distance from the twin and motion of the weights against alpha."""
    found, alpha = twin(int(state["width"]), str(state["scaling"])), float(state["alpha"])
    gap, motion = float(np.sqrt(np.mean(found.correction**2))), found.motion
    return {
        "layers": [
            {
                "role": "theory",
                "x": ALPHAS,
                "y": gap / ALPHAS,
                "name": "distance from the lazy twin",
                "tone": 0,
            },
            {"role": "theory", "x": ALPHAS, "y": motion / ALPHAS, "name": "motion of the weights", "tone": 3},
            {"role": "rule", "axis": "x", "at": alpha, "text": "α", "dash": "dot"},
        ],
        "x": {
            "label": "scale α",
            "log": True,
            "range": [0.95 * ALPHAS[0], 1.05 * ALPHAS[-1]],
            "ticks": [[v, f"{v:g}"] for v in SCAN],
        },
        "y": {
            "label": "after training",
            "log": True,
            "range": [1e-3, 10],
            "ticks": [[v, f"{v:g}"] for v in (0.001, 0.01, 0.1, 1, 10)],
        },
        "alt": f"Distance from the lazy twin {gap / alpha:.3f} and relative motion of the weights "
        f"{motion / alpha:.3f} at α = {alpha:g}; both fall as 1/α.",
        "numbers": [
            ["from the twin", f"{gap / alpha:.2g}", "first order in 1/α, root mean square"],
            ["weights move by", f"{100 * motion / alpha:.2g} %", "of their length"],
            ["regime", _regime(gap / alpha), f"labels have size {np.sqrt(np.mean(Y**2)):.1f}"],
        ],
    }


def _regime(gap: float) -> str:
    return "lazy" if gap < 0.02 else "nearly lazy" if gap < 0.2 else "learns features"


# ---- real networks ---------------------------------------------------------------------------------


def trained(width: int, scaling: str, alpha: float) -> tuple[np.ndarray, float]:
    """The network itself after gradient flow: its function, and how far its weights moved, relative."""
    model = scaled_network(width, scaling, alpha, None)
    end = train_weights(model.at(X[:, None]), Y, fw.GradientFlow(), model.zeros())
    length = lambda tree: np.sqrt(sum(float(jnp.sum(a**2)) for a in jax.tree.leaves(tree)))
    change = jax.tree.map(jnp.subtract, model.params_of(end.weights), model.params)
    return np.asarray(model(end.weights, GRID[:, None]))[:, 0], length(change) / length(model.params)


def trained_twin(width: int, scaling: str) -> np.ndarray:
    """The linearised network after the same gradient flow."""
    model = scaled_network(width, scaling, 1.0, 1)
    end = train_weights(model.at(X[:, None]), Y, fw.GradientFlow(), model.zeros())
    return np.asarray(model(end.weights, GRID[:, None]))[:, 0]


def pieces(state: State) -> Iterator[Picture]:
    """Train the network at this alpha, its twin, and the network at all other alphas."""
    width, scaling, alpha = int(state["width"]), str(state["scaling"]), float(state["alpha"])
    here, _ = trained(width, scaling, alpha)
    points = {"role": "measured", "x": GRID[2::6], "y": here[2::6], "name": "network", "tone": 1}
    shown: dict[str, list[Picture]] = {"function": [points]}
    total = len(SCAN) + 2
    yield {"done": 1, "of": total, "figures": shown}
    lazy = trained_twin(width, scaling)
    yield {"done": 2, "of": total, "figures": shown}
    gaps, motions = [], []
    for i, scale in enumerate(SCAN):
        function, motion = trained(width, scaling, float(scale))
        gaps.append(np.sqrt(np.mean((function - lazy) ** 2)))
        motions.append(motion)
        found = {"role": "measured", "x": SCAN[: i + 1], "tone": 1}
        shown = {
            "function": [points],
            "orders": [
                {**found, "y": np.array(gaps), "name": "network and twin, trained"},
                {**found, "y": np.array(motions), "name": ""},
            ],
        }
        yield {"done": i + 3, "of": total, "figures": shown}


def code(state: State) -> str:
    """The twin and its correction by `fw.nearly_kernel_machine`, and the network by `train_weights`."""
    numbers = lambda values: ", ".join(f"{v:.6g}" for v in values)
    return f"""import jax
import numpy as np
import finitewidth as fw
from finitewidth.networks import train_weights

x = np.array([{numbers(X)}])[:, None]
y = np.array([{numbers(Y)}])
grid = np.linspace(-2.2, 2.2, 12)[:, None]
alpha = {state["alpha"]}

net = fw.MLP(({state["width"]},), {ACTIVATION!r}, C_b={C_B}, C_W={C_W}, parametrisation={state["scaling"]!r})
params, rates, flow = net.init(jax.random.key(2), 1), net.learning_rates(1), fw.GradientFlow()

# Theory: kernel regression with the tangent kernel of this network, and the first order in 1/alpha.
model = fw.TangentModel(net.apply, params, 2, rates, 1 / alpha)
machine = fw.nearly_kernel_machine(model, x, y, grid, flow)
print("lazy twin:  ", machine.linear[:, 0])
print("first order:", machine.prediction[:, 0])

# The network itself, trained.
network = fw.TangentModel(net.apply, params, None, rates, 1 / alpha)
end = train_weights(network.at(x), y, flow, network.zeros())
print("network:    ", network(end.weights, grid)[:, 0])
"""


def warm() -> None:
    """Compute what the default state shows."""
    draw_orders(defaults(CONTROLS))


PAGE = Page(
    slug="lazy",
    title="Lazy or learning",
    idea="Multiply the outputs of a network by α. If α is large, tiny steps of the weights fit the data: the "
    "network is as lazy as its linearised twin, a kernel method. If α is small, its features must move.",
    formula=r"""\begin{aligned}
f_\alpha(W) &= f(\theta_0)
+ \alpha \left[f\!\left(\theta_0 + \tfrac{1}{\alpha} W\right) - f(\theta_0)\right] \\
f_\alpha(W^*) &= f_{\text{twin}} + \frac{1}{\alpha}\, z^I + O(\alpha^{-2}) \\
|\theta - \theta_0| &= |W^*| / \alpha
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("function", "The network and its twin", ("alpha", "width", "scaling"), draw_function),
        Figure("orders", "How lazy?", ("alpha", "width", "scaling"), draw_orders),
    ),
    experiment=Experiment("function", "Train networks", ("alpha", "width", "scaling"), pieces),
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
