"""Wide random networks are Gaussian: how far from it at width n, and how depth over width decides."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.architecture.activations import as_activation
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults

DEEPEST = 16
LAYERS = np.arange(1, DEEPEST + 1)
SPAN = np.linspace(-6, 6, 241)
EDGES = np.linspace(-6, 6, 61)
PIECE_NORMALS, MOST_NORMALS, MOST = 2**22, 2**29, 16_384
NAMES = ("relu", "tanh", "erf", "gelu", "silu", "sin", "leaky_relu", "linear")

CONTROLS = (
    Choice("activation", "Activation", tuple((name, name) for name in NAMES), "relu"),
    Slider("width", "Width n", 2, 7, 1, 32, log2=True),
    Slider("depth", "Depth (affine layers)", 1, DEEPEST, 1, 5, whole=True),
)


@functools.lru_cache(maxsize=len(NAMES))
def growth(activation: str) -> fw.DepthGrowth:
    """Kernel, its shift and the four-point vertex above every layer; only 1/n multiplies them."""
    return fw.depth_growth(fw.MLP((2,) * (DEEPEST - 1), activation))


def kurtosis(state: State) -> np.ndarray:
    """Excess kurtosis of one preactivation above every layer, to first order in 1/n."""
    found = growth(state["activation"])
    return 3 * found.V / (state["width"] * found.K**2)


def exact_kurtosis(state: State) -> np.ndarray | None:
    """At any width, for networks that are linear or made of kinks at zero: a product over layers."""
    if state["activation"] not in ("relu", "linear"):
        return None
    per_layer = 5 if state["activation"] == "relu" else 2
    return 3 * ((1 + per_layer / state["width"]) ** (LAYERS - 1.0) - 1)


def draw_density(state: State) -> Picture:
    """The law of one output, in units of its standard deviation at infinite width."""
    at = state["depth"] - 1
    excess = float(kurtosis(state)[at])
    shift = float(growth(state["activation"]).G1[at] / growth(state["activation"]).K[at])
    gauss = np.exp(-(SPAN**2) / 2) / np.sqrt(2 * np.pi)
    second = shift / state["width"] / 2 * (SPAN**2 - 1)
    corrected = gauss * (1 + second + excess / 24 * (SPAN**4 - 6 * SPAN**2 + 3))
    return {
        "layers": [
            charts.theory(SPAN, gauss, "infinite width: Gaussian", 0),
            charts.line(
                SPAN, np.where(corrected > 0, corrected, np.nan), "first order in 1/n", 2, dash="dash"
            ),
        ],
        "x": charts.axis("output / √K", [-6, 6]),
        "y": charts.axis("density", [1e-5, 1.0], log=True),
        "alt": f"Density of one output of a network with {state['depth']} layers of width {state['width']}: "
        f"a Gaussian at infinite width, with excess kurtosis {excess:.2f} to first order in 1/n.",
    }


def draw_kurtosis(state: State) -> Picture:
    """Excess kurtosis layer by layer."""
    first, exact, depth = kurtosis(state), exact_kurtosis(state), state["depth"]
    layers = [
        charts.theory(LAYERS, first, "first order in 1/n", 2),
        charts.rule(y=0.0, text="Gaussian", dash="solid", tone=0),
        charts.rule(x=depth, text="shown", dash="dot"),
    ]
    if exact is not None:
        layers.append(charts.line(LAYERS, exact, "exact", 3, dash="dash"))
    top = max(float(first.max()), 0.3)
    ratio = (depth - 1) / state["width"]
    slope = fw.vertex_slope(state["activation"])
    return {
        "layers": layers,
        "x": charts.axis("layer", [0.5, DEEPEST + 0.5]),
        "y": charts.axis("excess kurtosis", [-0.15 * top, 1.6 * top]),
        "alt": f"Excess kurtosis grows from 0 in layer 1 to {first[-1]:.2f} in layer {DEEPEST}.",
        "numbers": [
            ["hidden layers / width", f"{ratio:.2f}", "what decides how Gaussian the network is"],
            ["excess kurtosis", f"{first[depth - 1]:.2f}", f"layer {depth}, first order"],
            ["price of a layer", f"{3 * slope:.2f} / n", "growth of the kurtosis deep in the network"],
        ],
    }


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def networks(activation: str, key: jax.Array, count: int, width: int, C_W: jax.Array, C_b: jax.Array):
    """Preactivations (layers, networks, width) of real networks for one input of length sqrt(features)."""
    function = as_activation(activation).function

    def layer(carry, key):
        h, features = carry
        k1, k2 = jax.random.split(key)
        W = jax.random.normal(k1, (count, width, width), jnp.float32)
        b = jax.random.normal(k2, (count, width), jnp.float32)
        z = jnp.sqrt(C_W / features) * jnp.einsum("nij,nj->ni", W, h) + jnp.sqrt(C_b) * b
        return (function(z), float(width)), z

    start = jnp.ones((count, width), jnp.float32), float(width)
    return jax.lax.scan(layer, start, jax.random.split(key, DEEPEST))[1]


def pieces(state: State) -> Iterator[Picture]:
    """Draw real networks; their moments in every layer, and the histogram of the chosen one."""
    activation, width, depth = state["activation"], state["width"], state["depth"]
    net = fw.MLP((1,), activation)
    C_W, C_b = jnp.float32(net.C_W[0]), jnp.float32(net.C_b[0])
    most = min(MOST, MOST_NORMALS // (DEEPEST * width**2))
    count = max(1, min(512, PIECE_NORMALS // (DEEPEST * width**2)))
    unit = np.sqrt(growth(activation).K)[:, None, None]
    second, fourth, heights = [], [], np.zeros(len(EDGES) - 1)
    for i in range(most // count):
        z = np.asarray(networks(activation, jax.random.fold_in(jax.random.key(3), i), count, width, C_W, C_b))
        z = z / unit
        second.append((z**2).mean(2))
        fourth.append((z**4).mean(2))
        heights += np.histogram(z[depth - 1, :, 0], EDGES)[0]
        done = (i + 1) * count
        yield {"done": done, "of": most // count * count, "figures": _figures(second, fourth, heights, done)}


def _figures(second: list, fourth: list, heights: np.ndarray, done: int) -> dict[str, list[Picture]]:
    """Excess kurtosis with its standard error over networks, and the density."""
    s, f = np.concatenate(second, 1), np.concatenate(fourth, 1)
    variance, mean4 = s.mean(1), f.mean(1)
    # One network's share in E[z^4] / E[z^2]^2, to first order.
    influence = (f - 2 * mean4[:, None] / variance[:, None] * s) / variance[:, None] ** 2
    error = 2 * influence.std(1, ddof=1) / np.sqrt(s.shape[1])
    density = heights / done / np.diff(EDGES)
    return {
        "density": [charts.bars(EDGES, np.where(density > 0, density, np.nan), "networks", 1)],
        "kurtosis": [charts.measured(LAYERS, mean4 / variance**2 - 3, "networks, ±2 s.e.", 1, err=error)],
    }


def code(state: State) -> str:
    """The same numbers by the library's public functions, and by drawing networks."""
    return f"""import jax
import jax.numpy as jnp
import finitewidth as fw

net = fw.MLP(hidden=({state["width"]},) * {state["depth"] - 1}, activation={state["activation"]!r})

# Theory: every layer, the output last.
print(fw.depth_growth(net).excess_kurtosis)

# Real networks: one output each for the input 1.
keys = jax.random.split(jax.random.key(0), 4096)
x = jnp.ones((1, 1))
z = jax.jit(jax.vmap(lambda key: net.apply(net.init(key, 1), x)[0, 0]))(keys)
print(jnp.mean(z**4) / jnp.mean(z**2) ** 2 - 3)
"""


def warm() -> None:
    """Compute what the default state shows."""
    draw_kurtosis(defaults(CONTROLS))


PAGE = Page(
    slug="wide",
    order=2,
    title="Wide networks are Gaussian",
    idea="An output of a random network is a sum over many neurons, so at infinite width it is Gaussian. "
    "Every hidden layer adds a little that is not: what counts is depth divided by width.",
    formula=r"""\begin{aligned}
z^{(\ell+1)} \,\big|\, z^{(\ell)} &\sim
\mathcal{N}\Big(0,\ C_b + \frac{C_W}{n} \sum_j \sigma(z_j^{(\ell)})^2\Big) \\
\frac{E[z^4]}{E[z^2]^2} - 3 &= \frac{3 V^{(\ell)}}{n\,(K^{(\ell)})^2} + O(n^{-2})
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("density", "One output of many networks", ("activation", "width", "depth"), draw_density),
        Figure("kurtosis", "How far from Gaussian?", ("activation", "width", "depth"), draw_kurtosis),
    ),
    experiment=Experiment("density", "Draw networks", ("activation", "width", "depth"), pieces),
    code=code,
    claims=(
        "fan-in-scaling",
        "conditional-gaussian-layer",
        "nngp-covariance",
        "relu-output-fourth-moment",
        "depth-over-width",
    ),
    warm=warm,
)
