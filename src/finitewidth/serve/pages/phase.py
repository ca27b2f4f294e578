"""Order, chaos and the edge between them: where a deep random network still remembers its input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.activations import as_activation
from finitewidth.serve.laws import ACTIVATIONS, DEEPEST_FLOW, flow, law_of
from finitewidth.serve.page import Figure, Page, Picture
from finitewidth.serve.state import Choice, Slider, State

STARTS = np.array([0.1, 0.5, 2.0])
ANGLES = np.array([0.95, 0.6, 0.0])
WIDTH, DRAWS = 200, 4
LAYERS = np.arange(1, DEEPEST_FLOW + 1)

CONTROLS = (
    Choice("activation", "Activation", ACTIVATIONS, "tanh"),
    Slider("C_W", "Weight variance C_W", 0.2, 4.0, 0.02, 1.6),
    Slider("C_b", "Bias variance C_b", 0.0, 0.6, 0.01, 0.05),
    Slider("depth", "Depth", 5, DEEPEST_FLOW, 1, 40, whole=True),
)


@functools.lru_cache(maxsize=32)
def diagram(activation: str) -> Picture:
    C_W, C_b = np.linspace(0.2, 4.0, 77), np.linspace(0.0, 0.6, 41)
    d = fw.phase_diagram(activation, C_W=C_W, C_b=C_b)
    rate = np.log(np.clip(d.chi_perpendicular, 1e-3, 1e3))
    return {"x": C_W, "y": C_b, "z": np.clip(rate, -0.6, 0.6)}


def draw_map(state: State) -> Picture:
    d = diagram(state["activation"])
    return {
        "layers": [
            {"role": "map", **d},
            {"role": "edge", **d},
        ],
        "x": {"label": "C_W", "range": [0.2, 4.0]},
        "y": {"label": "C_b", "range": [0, 0.6]},
        "pick": ["C_W", "C_b"],
        "labels": [{"text": "ordered", "x": 0.03, "y": 0.97}, {"text": "chaotic", "x": 0.97, "y": 0.03}],
        "alt": f"Phase diagram of {state['activation']}: ordered for small C_W, chaotic for large C_W.",
    }


def local(state: State) -> tuple[float, float]:
    d = diagram(state["activation"])
    i = np.argmin(np.abs(d["y"] - state["C_b"]))
    chi = float(np.exp(np.interp(state["C_W"], d["x"], d["z"][i])))
    return chi, float(1 / max(abs(np.log(chi)), 1e-9))


@functools.lru_cache(maxsize=1)
def weights():
    k1, k2 = jax.random.split(jax.random.key(7))
    return (
        jax.random.normal(k1, (DRAWS, DEEPEST_FLOW, WIDTH, WIDTH), jnp.float32),
        jax.random.normal(k2, (DRAWS, DEEPEST_FLOW, WIDTH), jnp.float32),
    )


@functools.partial(jax.jit, static_argnums=0)
def networks(activation: str, C_W, C_b, W, b):
    """Preactivations of real networks in every layer for six inputs, whose variances and angles are given."""
    act = as_activation(activation)
    u = np.linalg.qr(np.random.default_rng(0).normal(size=(WIDTH, 2)))[0].T * np.sqrt(WIDTH)
    x = [np.sqrt(s) * u[0] for s in STARTS] + [u[0]] + [c * u[0] + np.sqrt(1 - c * c) * u[1] for c in ANGLES]
    x = jnp.asarray(np.stack(x, 1), jnp.float32)
    scale, shift = jnp.sqrt(C_W / WIDTH).astype(jnp.float32), jnp.sqrt(C_b).astype(jnp.float32)

    def one(W, b):
        def layer(h, wb):
            z = scale * (wb[0] @ h) + shift * wb[1][:, None]
            gram = z.T @ z / WIDTH
            return act.function(z), gram

        return jax.lax.scan(layer, x, (W, b))[1]

    gram = jax.lax.map(lambda wb: one(*wb), (W, b))
    K = jnp.stack([gram[..., i, i] for i in range(3)], -1)
    c = jnp.stack(
        [gram[..., 3, 4 + i] / jnp.sqrt(gram[..., 3, 3] * gram[..., 4 + i, 4 + i]) for i in range(3)], -1
    )
    return K, c


@functools.lru_cache(maxsize=64)
def both(activation: str, C_W: float, C_b: float):
    K, c = flow(
        law_of(activation), jnp.asarray(C_W), jnp.asarray(C_b), jnp.asarray(STARTS), jnp.asarray(ANGLES)
    )
    measured = networks(activation, jnp.asarray(C_W), jnp.asarray(C_b), *weights())
    return [np.asarray(a) for a in (K, c, *measured)]


def _lines(theory, measured, depth, names, tones=(0, 1, 2)) -> list[Picture]:
    shown = LAYERS[:depth]
    sparse = np.unique(np.linspace(0, depth - 1, min(depth, 13)).round().astype(int))
    mean, sem = measured.mean(0), measured.std(0, ddof=1) / np.sqrt(len(measured))
    layers = []
    for i, (name, tone) in enumerate(zip(names, tones, strict=True)):
        layers.append({"role": "theory", "x": shown, "y": theory[:depth, i], "name": name, "tone": tone})
    for i, tone in enumerate(tones):
        layers.append(
            {
                "role": "measured",
                "x": LAYERS[sparse],
                "y": mean[sparse, i],
                "err": 2 * sem[sparse, i],
                "name": f"{DRAWS} networks of width {WIDTH}" if i == 0 else "",
                "tone": tone,
            }
        )
    return layers


def draw_variance(state: State) -> Picture:
    K, _, K_net, _ = both(state["activation"], state["C_W"], state["C_b"])
    depth = state["depth"]
    return {
        "layers": _lines(K, K_net, depth, [f"K₀ = {s:g}" for s in STARTS]),
        "x": {"label": "layer", "range": [0.5, depth + 0.5]},
        "y": {
            "label": "variance K",
            "log": bool(K[:depth].max() > 30 * max(K[:depth].min(), 1e-12) or K[:depth].max() > 20),
        },
        "alt": f"Variance of three inputs: {K[0].round(2).tolist()} in layer 1, {K[depth - 1].round(3).tolist()} in layer {depth}.",
    }


def draw_correlation(state: State) -> Picture:
    _, c, _, c_net = both(state["activation"], state["C_W"], state["C_b"])
    depth = state["depth"]
    chi, xi = local(state)
    phase = "on the edge" if abs(chi - 1) < 0.01 else ("ordered" if chi < 1 else "chaotic")
    words = {
        "ordered": "all inputs become alike",
        "chaotic": "similar inputs become different",
        "on the edge": "the input survives",
    }[phase]
    return {
        "layers": _lines(c, c_net, depth, [f"c₀ = {a:g}" for a in ANGLES], (3, 4, 5)),
        "x": {"label": "layer", "range": [0.5, depth + 0.5]},
        "y": {"label": "correlation c", "range": [min(-0.05, float(c[:depth].min()) - 0.05), 1.05]},
        "alt": f"Correlation of pairs of inputs goes from {c[0].round(2).tolist()} to {c[depth - 1].round(3).tolist()}.",
        "numbers": [
            ["phase", phase, words],
            ["χ⊥", f"{chi:.3f}", "growth of a small difference per layer"],
            ["memory", f"{xi:.0f} layers" if xi < 1000 else "∞", "1 / |log χ⊥|"],
        ],
    }


def code(state: State) -> str:
    return f"""import numpy as np
import finitewidth as fw

activation, C_W, C_b = {state["activation"]!r}, {state["C_W"]}, {state["C_b"]}

K_star = fw.fixed_point(activation, C_b=C_b, C_W=C_W)
lengths = fw.correlation_lengths(activation, C_b=C_b, C_W=C_W)
print(f"K* = {{K_star:.4g}}, memory = {{lengths.perpendicular:.4g}} layers")

net = fw.MLP(hidden=(200,) * {state["depth"] - 1}, activation=activation, C_b=C_b, C_W=C_W)
x = np.sqrt(np.array([[0.1], [0.5], [2.0]]))
print(fw.trajectory(net, x).nngp)                 # variance, layer by layer
diagram = fw.phase_diagram(activation)            # the map
"""


def warm() -> None:
    s = {c.name: c.default for c in CONTROLS}
    for draw in (draw_map, draw_variance, draw_correlation):
        draw(s)


PAGE = Page(
    slug="phase",
    title="Order, chaos and the edge between",
    idea="A deep random network forgets its input, on one side because everything becomes alike, on the other because "
    "everything becomes different. Only on the line between the two does a signal cross many layers.",
    formula=r"""\begin{aligned}
K^{(\ell+1)} &= C_b + C_W \left\langle \sigma^2 \right\rangle_{K^{(\ell)}} \\
\chi_\perp &= C_W \left\langle \sigma'^2 \right\rangle_{K^*}
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("map", "Where am I?", ("activation",), draw_map, tall=True),
        Figure("variance", "Size of the signal", ("activation", "C_W", "C_b", "depth"), draw_variance),
        Figure(
            "correlation", "Likeness of two inputs", ("activation", "C_W", "C_b", "depth"), draw_correlation
        ),
    ),
    code=code,
    claims=("criticality-conditions", "tanh-critical-kernel-decay", "relu-angle-decay", "relu-critical"),
    warm=warm,
)
