"""Order, chaos and the edge between them: where a deep random network still remembers its input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.architecture.activations import as_activation
from finitewidth.course._server import charts
from finitewidth.course._server.activations import ACTIVATIONS
from finitewidth.course._server.page import Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults

DEEPEST = 100
LAYERS = np.arange(1, DEEPEST + 1)
STARTS = np.array([0.1, 0.5, 2.0])
ANGLES = np.array([0.95, 0.6, 0.0])
WIDTH, DRAWS = 200, 4
RANGE_W, RANGE_B = (0.2, 4.0), (0.0, 0.6)

CONTROLS = (
    Choice("activation", "Activation", ACTIVATIONS, "tanh"),
    Slider("C_W", "Weight variance C_W", *RANGE_W, 0.02, 1.6),
    Slider("C_b", "Bias variance C_b", *RANGE_B, 0.01, 0.05),
    Slider("depth", "Depth", 5, DEEPEST, 1, 40, whole=True),
)
EVERY = ("activation", "C_W", "C_b", "depth")


def inputs(features: int) -> np.ndarray:
    """Three inputs of different length, one more, and three at different angles to it: (7, features)."""
    u = np.linalg.qr(np.random.default_rng(0).normal(size=(features, 2)))[0].T * np.sqrt(features)
    lengths = np.sqrt(STARTS)[:, None] * u[0]
    turned = ANGLES[:, None] * u[0] + np.sqrt(1 - ANGLES**2)[:, None] * u[1]
    return np.concatenate([lengths, u[:1], turned])


def variances_and_correlations(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From second moments (..., 7, 7): the variances of the lengths, the correlations of the angles."""
    own = np.diagonal(gram, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return own[..., :3], gram[..., 3, 4:] / np.sqrt(own[..., 3:4] * own[..., 4:])


# ---- theory ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def kernels(activation: str) -> fw.AdjustableKernels:
    """NNGP kernels above every layer, as a function of the variances."""
    x = inputs(2)
    return fw.adjustable_kernels(activation, x, deepest=DEEPEST, C_W=RANGE_W, C_b=RANGE_B)


@functools.lru_cache(maxsize=64)
def theory(activation: str, C_W: float, C_b: float) -> tuple[np.ndarray, np.ndarray]:
    """Variances and correlations at infinite width, (layers, 3) each."""
    return variances_and_correlations(np.asarray(kernels(activation)(C_W, C_b).nngp))


@functools.lru_cache(maxsize=16)
def diagram(activation: str) -> Picture:
    """The logarithm of the growth of a small difference, over the plane of the variances."""
    C_W, C_b = np.linspace(*RANGE_W, 77), np.linspace(*RANGE_B, 41)
    found = fw.phase_diagram(activation, C_W=C_W, C_b=C_b)
    rate = np.log(np.clip(found.chi_perpendicular, 1e-3, 1e3))
    return {"x": C_W, "y": C_b, "z": np.clip(rate, -0.6, 0.6)}


@functools.lru_cache(maxsize=64)
def growth(activation: str, C_W: float, C_b: float) -> float:
    """By what a small difference between two inputs is multiplied in each layer, deep in the network."""
    return fw.phase_diagram(activation, C_W=np.array([C_W]), C_b=np.array([C_b])).chi_perpendicular.item()


def _of(state: State) -> tuple[str, float, float]:
    return state["activation"], state["C_W"], state["C_b"]


def draw_map(state: State) -> Picture:
    """The plane of the variances, with the line between order and chaos."""
    plane = diagram(state["activation"])
    return {
        "layers": [charts.plane(**plane), charts.edge(**plane)],
        "x": charts.axis("C_W", RANGE_W),
        "y": charts.axis("C_b", RANGE_B),
        "pick": ["C_W", "C_b"],
        "labels": [{"text": "ordered", "x": 0.03, "y": 0.97}, {"text": "chaotic", "x": 0.97, "y": 0.03}],
        "alt": f"Phase diagram of {state['activation']}: ordered for small C_W, chaotic for large.",
    }


def _curves(values: np.ndarray, names: list[str], first_tone: int) -> list[Picture]:
    shown = LAYERS[: len(values)]
    return [charts.theory(shown, values[:, i], name, first_tone + i) for i, name in enumerate(names)]


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{v:.3g}" for v in values)


def draw_variance(state: State) -> Picture:
    """Variance of a preactivation, layer by layer, for inputs of three lengths."""
    depth = state["depth"]
    K = theory(*_of(state))[0][:depth]
    log = bool(K.max() > 20 or K.max() > 30 * max(K.min(), 1e-12))
    # Variances may fall to nothing or grow without bound: ten decades are enough to see it.
    top = K.max() * 1.5
    span = [max(K[K > 0].min(initial=top) / 1.5, 1e-10 * top), top] if log else None
    return {
        "layers": _curves(K, [f"K₀ = {s:g}" for s in STARTS], 0),
        "x": charts.axis("layer", [0.5, depth + 0.5]),
        "y": charts.axis("variance K", span, log=log),
        "alt": f"Variance of three inputs: {_listed(K[0])} in layer 1, {_listed(K[-1])} in layer {depth}.",
    }


def draw_correlation(state: State) -> Picture:
    """Correlation of two preactivations, layer by layer, for pairs at three angles."""
    depth = state["depth"]
    c = theory(*_of(state))[1][:depth]
    chi = growth(*_of(state))
    rate = abs(np.log(chi)) if chi > 0 else np.inf
    if rate < 2e-3:
        phase, words = "on the edge", "the input survives"
    elif chi < 1:
        phase, words = "ordered", "all inputs become alike"
    else:
        phase, words = "chaotic", "similar inputs become different"
    lowest = float(np.nanmin(c, initial=0.0))
    return {
        "layers": _curves(c, [f"c₀ = {a:g}" for a in ANGLES], 3),
        "x": charts.axis("layer", [0.5, depth + 0.5]),
        "y": charts.axis("correlation c", [lowest - 0.05, 1.05]),
        "alt": f"Correlation of three pairs of inputs: {_listed(c[0])} in layer 1, {_listed(c[-1])} in layer "
        f"{depth}.",
        "numbers": [
            ["phase", phase, words],
            ["χ⊥", f"{chi:.3f}", "growth of a small difference per layer"],
            ["memory", "∞" if rate < 1e-3 else f"{1 / rate:.3g} layers", "1 / |log χ⊥|"],
        ],
    }


# ---- real networks ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def weights() -> tuple[jax.Array, jax.Array]:
    """The same standard normal numbers for every state: only their scale moves with the sliders."""
    for_weights, for_biases = jax.random.split(jax.random.key(7))
    return (
        jax.random.normal(for_weights, (DRAWS, DEEPEST, WIDTH, WIDTH), jnp.float32),
        jax.random.normal(for_biases, (DRAWS, DEEPEST, WIDTH), jnp.float32),
    )


@functools.partial(jax.jit, static_argnums=0)
def networks(activation: str, C_W: jax.Array, C_b: jax.Array, W: jax.Array, b: jax.Array) -> jax.Array:
    """Second moments (networks, layers, 7, 7) of the preactivations of real networks."""
    function = as_activation(activation).function
    x = jnp.asarray(inputs(WIDTH).T, jnp.float32)
    scale, shift = jnp.sqrt(C_W / WIDTH).astype(jnp.float32), jnp.sqrt(C_b).astype(jnp.float32)

    def layer(h, numbers):
        z = scale * (numbers[0] @ h) + shift * numbers[1][:, None]
        return function(z), z.T @ z / WIDTH

    return jax.lax.map(lambda numbers: jax.lax.scan(layer, x, numbers)[1], (W, b))


@functools.lru_cache(maxsize=64)
def drawn(activation: str, C_W: float, C_b: float) -> tuple[np.ndarray, np.ndarray]:
    """Variances and correlations of real networks, (networks, layers, 3) each."""
    gram = networks(activation, jnp.asarray(C_W), jnp.asarray(C_b), *weights())
    return variances_and_correlations(np.asarray(gram, np.float64))


def _circles(values: np.ndarray, depth: int, first_tone: int) -> Picture:
    sparse = np.unique(np.linspace(0, depth - 1, min(depth, 13)).round().astype(int))
    with np.errstate(invalid="ignore"):  # a signal that has underflowed to zero has no angle
        mean, error = values.mean(0)[sparse], values.std(0, ddof=1)[sparse] / np.sqrt(DRAWS)
    names = [f"{DRAWS} networks of width {WIDTH}, ±2 s.e.", "", ""]
    return {
        "layers": [
            charts.measured(LAYERS[sparse], mean[:, i], name, first_tone + i, err=2 * error[:, i])
            for i, name in enumerate(names)
        ]
    }


def measured_variance(state: State) -> Picture:
    """Variances over the neurons of real networks."""
    return _circles(drawn(*_of(state))[0], state["depth"], 0)


def measured_correlation(state: State) -> Picture:
    """Correlations over the neurons of real networks."""
    return _circles(drawn(*_of(state))[1], state["depth"], 3)


def code(state: State) -> str:
    """The same numbers by the library's public functions."""
    return f"""import numpy as np
import finitewidth as fw

activation, C_W, C_b = {state["activation"]!r}, {state["C_W"]}, {state["C_b"]}

K_star = fw.fixed_point(activation, C_b=C_b, C_W=C_W)
lengths = fw.correlation_lengths(activation, C_b=C_b, C_W=C_W)
print(f"K* = {{K_star:.4g}}, memory = {{lengths.perpendicular:.4g}} layers")

# Variances, layer by layer, of three inputs.
net = fw.MLP(hidden=({WIDTH},) * {state["depth"] - 1}, activation=activation, C_b=C_b, C_W=C_W)
x = np.sqrt(np.array([[0.1], [0.5], [2.0]]))
print(fw.trajectory(net, x).nngp)

# The map.
diagram = fw.phase_diagram(activation, C_W=np.linspace(0.2, 4, 20), C_b=np.linspace(0, 0.6, 7))
print(diagram.chi_perpendicular.round(2))
"""


def warm() -> None:
    """Compile what the default state needs."""
    for figure in PAGE.figures:
        figure.picture(defaults(CONTROLS))


PAGE = Page(
    slug="phase",
    order=1,
    title="Order, chaos and the edge between",
    idea="A deep random network forgets its input: on one side because everything becomes alike, on the "
    "other because everything becomes different. Only on the line between them does a signal cross many "
    "layers.",
    formula=r"""\begin{aligned}
K^{(\ell+1)} &= C_b + C_W \left\langle \sigma^2 \right\rangle_{K^{(\ell)}} \\
\chi_\perp &= C_W \left\langle \sigma'^2 \right\rangle_{K^*}
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("map", "Where am I?", ("activation",), draw_map, tall=True),
        Figure("variance", "Size of the signal", EVERY, draw_variance, measured=measured_variance),
        Figure(
            "correlation", "Likeness of two inputs", EVERY, draw_correlation, measured=measured_correlation
        ),
    ),
    code=code,
    claims=(
        "criticality-conditions",
        "linear-critical",
        "relu-critical",
        "tanh-critical-kernel-decay",
        "relu-angle-decay",
    ),
    warm=warm,
)
