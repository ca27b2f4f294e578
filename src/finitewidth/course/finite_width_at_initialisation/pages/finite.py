"""Finite width: how far the kernels of two networks differ, and how far training moves them."""

import functools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults

# Smooth ones: a jump of the slope leaves the differential of the kernel undefined.
NAMES = ("tanh", "erf", "sin", "gelu", "silu", "softplus")
DEEPEST = 12
DEPTHS = np.arange(2, DEEPEST + 1)
EDGES = np.linspace(0.0, 2.5, 51)
SPAN = np.linspace(0.0, 2.5, 251)
MEASURED_DEPTHS = (2, 4, 8)
MOST, LEAST_PIECE, MOST_WORK = 4096, 32, 2**22

CONTROLS = (
    Choice("activation", "Activation", tuple((name, name) for name in NAMES), "tanh"),
    Slider("depth", "Depth L (affine layers)", 2, DEEPEST, 1, 4, whole=True),
    Slider("width", "Width n", 3, 8, 1, 64, log2=True),
)
ALL = ("activation", "depth", "width")

# ---- theory ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=len(NAMES))
def coefficients(activation: str) -> dict[str, np.ndarray]:
    """For every depth, relative to the kernel: n times variance, shift of the mean, and E[z dH]."""
    rows = []
    for depth in DEPTHS:
        tensors = fw.corrections(fw.MLP((2,) * (depth - 1), activation), [[1.0]])
        theta, H1, A, B, P, Q = (float(getattr(tensors, t).ravel()[0]) for t in ("Theta", "H1", *"ABPQ"))
        rows.append(((A + 2 * B) / theta**2, H1 / theta, (P + 2 * Q) / theta**2, theta))
    return dict(zip(("variance", "shift", "motion", "kernel"), np.array(rows).T, strict=True))


def first_order(state: State) -> dict[str, np.ndarray]:
    """Spread, mean and motion E[z dH] of the kernel at width n, relative to it, for every depth."""
    found, n = coefficients(str(state["activation"])), float(state["width"])
    return {
        "spread": np.sqrt(found["variance"] / n),
        "mean": 1 + found["shift"] / n,
        "motion": found["motion"] / n,
    }


def draw_kernels(state: State) -> Picture:
    """The law of one network's tangent kernel, in units of its value at infinite width."""
    at, theory = int(state["depth"]) - DEPTHS[0], first_order(state)
    mean, spread = theory["mean"][at], theory["spread"][at]
    density = np.exp(-((SPAN - mean) ** 2) / (2 * spread**2)) / (np.sqrt(2 * np.pi) * spread)
    ratio = int(state["depth"]) / int(state["width"])
    return {
        "layers": [
            charts.rule(x=1.0, text="infinite width", dash="solid", tone=0),
            charts.theory(SPAN, density, "spread to first order in 1/n", 2),
        ],
        "x": charts.axis("kernel of one network / Θ", [0, 2.5]),
        "y": charts.axis("density", [0, 1.25 * float(density.max())]),
        "alt": f"Tangent kernels of networks with {state['depth']} layers of width {state['width']}: mean "
        f"{mean:.3f} and standard deviation {spread:.2f}, relative to infinite width.",
        "numbers": [
            ["depth / width", f"{ratio:.3g}", "what both effects are measured in"],
            ["spread of the kernel", f"{100 * spread:.0f} %", "from network to network"],
            ["motion of the kernel", f"{100 * abs(theory['motion'][at]):.1f} %", "E[z dH] / Θ²"],
        ],
    }


def draw_growth(state: State) -> Picture:
    """Variance and motion of the kernel against depth, at this width."""
    theory, n = first_order(state), int(state["width"])
    variance, motion = theory["spread"] ** 2, np.abs(theory["motion"])
    sign = "rises" if theory["motion"][0] > 0 else "falls"
    return {
        "layers": [
            charts.theory(DEPTHS / n, variance, "variance of the kernel", 0),
            charts.theory(DEPTHS / n, motion, f"motion of the kernel (it {sign} as outputs grow)", 3),
            charts.rule(x=state["depth"] / n, text="L / n", dash="dot"),
        ],
        "x": charts.axis("depth / width", [0, 1.04 * DEEPEST / n]),
        "y": charts.axis("relative to Θ²", [0, 1.15 * float(max(variance.max(), motion.max()))]),
        "alt": f"At width {n} the relative variance of the kernel grows from {variance[0]:.3f} at two layers "
        f"to {variance[-1]:.3f} at {DEEPEST}, its motion from {motion[0]:.3f} to {motion[-1]:.3f}.",
    }


# ---- real networks ---------------------------------------------------------------------------------


@eqx.filter_jit
def drawn(net: fw.MLP, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Tangent kernel and z dH of many networks at one input: (networks,) each."""
    x, one = jnp.ones((1, 1)), jnp.ones((1, 1))

    def each(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        params = net.init(key, 1)
        H = fw.empirical_ntk(net, params, x)[0, 0, 0, 0]
        dH = fw.empirical_dntk(net, params, x, vectors=(one, one))[0, 0]
        return H, net.apply(params, x)[0, 0] * dH

    return jax.vmap(each)(keys)


def pieces(state: State) -> Iterator[Picture]:
    """Draw networks of the chosen depth and of some smaller ones; their kernels and how these would move."""
    activation, depth, width = str(state["activation"]), int(state["depth"]), int(state["width"])
    kernel = coefficients(activation)["kernel"]
    depths = [depth, *(d for d in MEASURED_DEPTHS if d < depth)]
    count = max(LEAST_PIECE, min(512, MOST_WORK // (depth * width**2)))
    most = min(MOST, 16 * count)
    seen: dict[int, tuple[list, list]] = {d: ([], []) for d in depths}
    for i in range(most // count):
        for d in depths:
            key = jax.random.fold_in(jax.random.key(5), i * DEEPEST + d)
            H, moved = drawn(fw.MLP((width,) * (d - 1), activation), jax.random.split(key, count))
            theta = kernel[d - DEPTHS[0]]
            seen[d][0].append(np.asarray(H) / theta)
            seen[d][1].append(np.asarray(moved) / theta**2)
            yield {
                "done": sum(len(kernels) for kernels, _ in seen.values()) * count,
                "of": most // count * count * len(depths),
                "figures": _figures(seen, depth, width),
            }


def _figures(seen: dict[int, tuple[list, list]], depth: int, width: int) -> dict[str, list[Picture]]:
    """The histogram at the chosen depth; variance and motion with two standard errors at all depths."""
    H = np.concatenate(seen[depth][0])
    heights = np.histogram(H, EDGES)[0] / len(H) / np.diff(EDGES)
    rows = []
    for d, (kernels, motions) in seen.items():
        if kernels:
            H, moved = np.concatenate(kernels), np.concatenate(motions)
            squares, root = (H - H.mean()) ** 2, np.sqrt(len(H))
            errors = squares.std() / root, moved.std() / root
            rows.append((d / width, squares.mean(), 2 * errors[0], abs(moved.mean()), 2 * errors[1]))
    x, variance, e_variance, motion, e_motion = np.array(rows).T
    return {
        "kernels": [charts.bars(EDGES, heights, "networks", 1)],
        "growth": [
            charts.measured(x, variance, "networks, ±2 s.e.", 1, err=e_variance),
            charts.measured(x, motion, "", 1, err=e_motion),
        ],
    }


def code(state: State) -> str:
    """The same numbers by `fw.corrections`, and by drawing networks."""
    hidden = f"({state['width']},) * {int(state['depth']) - 1}"
    return f"""import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import finitewidth as fw

net = fw.MLP(hidden={hidden}, activation={state["activation"]!r})
x, one = jnp.ones((1, 1)), jnp.ones((1, 1))

# Theory: the first order in 1/width.
t = fw.corrections(net, x)
Theta, A, B, P, Q = (float(getattr(t, name).ravel()[0]) for name in ("Theta", "A", "B", "P", "Q"))
print("relative variance", (A + 2 * B) / t.width / Theta**2)
print("relative motion  ", (P + 2 * Q) / t.width / Theta**2)


# Real networks.
def draw(net, key):
    params = net.init(key, 1)
    H = fw.empirical_ntk(net, params, x)[0, 0, 0, 0]
    dH = fw.empirical_dntk(net, params, x, vectors=(one, one))[0, 0]
    return H, net.apply(params, x)[0, 0] * dH


keys = jax.random.split(jax.random.key(0), 1024)
H, z_dH = eqx.filter_jit(eqx.filter_vmap(draw, in_axes=(None, 0)))(net, keys)
print("networks         ", np.var(H) / Theta**2, np.mean(z_dH) / Theta**2)
"""


def warm() -> None:
    """Compute what the default state shows."""
    draw_kernels(defaults(CONTROLS))


PAGE = Page(
    slug="finite",
    order=5,
    title="Depth over width",
    idea="At infinite width all networks have one tangent kernel, and training never moves it. At width n "
    "the kernels of two networks differ, and they move: both effects grow with depth and fall with width.",
    formula=r"""\begin{aligned}
\frac{\operatorname{Var}(H)}{\Theta^2} &= \frac{A + 2B}{n\,\Theta^2} + O(n^{-2}) \sim \frac{L}{n} \\
\frac{E[z\, dH]}{\Theta^2} &= \frac{P + 2Q}{n\,\Theta^2} + O(n^{-2}) \sim \frac{L}{n}
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("kernels", "The kernel of one network", ALL, draw_kernels),
        Figure("growth", "Both effects grow with depth", ALL, draw_growth),
    ),
    experiment=Experiment("kernels", "Draw networks", ALL, pieces),
    code=code,
    claims=(
        "depth-over-width",
        "dntk-width-scaling",
        "ntk-fluctuation-limit",
        "ntk-diagonal-second-moment",
        "mlp-cubic-model",
    ),
    warm=warm,
)
