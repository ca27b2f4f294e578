"""What training past zero error does to the last features of a classifier: every class becomes one corner."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import finitewidth as fw
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State
from finitewidth.measure.loss.collapse import collapse
from finitewidth.measure.specimen import Specimen, specimen

N_IN, PER_CLASS, HIDDEN_LAYERS = 12, 24, 3
ETA, STEPS = 0.01, 3000
RECORDS = np.unique(
    np.concatenate([np.geomspace(1, 200, 60), np.linspace(200, STEPS, 29)]).round().astype(int)
)

CONTROLS = (
    Choice("data", "Class centres", (("corners", "at right angles"), ("row", "in a row")), "corners"),
    Slider("classes", "Classes", 3, 6, 1, 3, whole=True),
    Slider("noise", "Spread of each class", 0.2, 1.2, 0.1, 0.8),
    Slider("width", "Width of three hidden layers", 4, 6, 1, 32, log2=True),
    Slider("decay", "Weight decay", -4, -2, 0.5, 0.00316228, log10=True),
)
NAMES = [f"class {c + 1}" for c in range(6)]
MEASURES = {
    "variability": ("NC1 spread", "spread within classes"),
    "frame_distance": ("NC2 simplex", "distance of the means from a simplex"),
    "mismatch": ("NC3 nearest mean", "answers that are not the nearest mean"),
    "self_duality": ("NC4 weights", "distance of last weights and means"),
}
# Zero has no place on a logarithmic axis.
FLOOR = 1e-3
# Half the side of the pictures, in mean lengths of centred class means.
REACH = 1.75


def corners(classes: int) -> np.ndarray:
    """A simplex seen along the axes in which it is a regular polygon: corners (classes, 2).

    Centred means of length one in C - 1 dimensions; the two axes hold a share 2 / (C - 1) of every square.
    """
    angle = 2 * np.pi * np.arange(classes) / classes + np.pi / 2
    return np.sqrt(2 / (classes - 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def draw_features(state: State) -> Picture:
    """The simplex to which class means should go."""
    classes = int(state["classes"])
    at = corners(classes)
    ring = np.vstack([at, at[:1]])
    cosine = -1 / (classes - 1)
    return {
        "layers": [
            charts.line(ring[:, 0], ring[:, 1], "theory: a simplex", 0, dash="dash"),
            charts.points(at[:, 0], at[:, 1], np.arange(classes), open=True, size=15),
        ],
        "x": charts.axis("first axis of the class means", [-REACH, REACH]),
        "y": charts.axis("second axis", [-REACH, REACH]),
        "equal": True,
        "alt": f"{classes} corners of a simplex, each two at a cosine of {cosine:.3f}.",
        "numbers": [
            ["angle of two classes", f"{np.degrees(np.arccos(cosine)):.1f}°", f"cosine −1/{classes - 1}"]
        ],
    }


def draw_measures(state: State) -> Picture:
    """Axes of the four measures, all of which tend to zero."""
    return {
        "layers": [],
        "x": charts.axis(
            "step", [0.9, 1.1 * STEPS], log=True, ticks=[[t, f"{t:,}"] for t in (1, 10, 100, 1000)]
        ),
        "y": charts.axis(
            "distance from collapse",
            [FLOOR / 1.5, 10.0],
            log=True,
            ticks=[[FLOOR, f"< {FLOOR:g}"], [0.01, "0.01"], [0.1, "0.1"], [1.0, "1"]],
        ),
        "alt": "Four measures of collapse over training; all of them should fall towards zero.",
    }


def inputs(data: str, classes: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Clouds of points (points, 12) around centres at right angles or in a row, and their classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(classes), PER_CLASS)
    axes = np.linalg.qr(rng.normal(size=(N_IN, classes)))[0].T * np.sqrt(N_IN)
    centres = axes if data == "corners" else np.linspace(-1, 1, classes)[:, None] * axes[0]
    return centres[y] + noise * rng.normal(size=(len(y), N_IN)), y


def draw_inputs(state: State) -> Picture:
    """What the network is given: the same view, of the inputs."""
    classes = int(state["classes"])
    x, y = inputs(str(state["data"]), classes, float(state["noise"]))
    points, _ = view(x, y, classes)
    return {
        "layers": [_cloud(points, y)],
        "x": charts.axis("first axis of the class means", [-REACH, REACH]),
        "y": charts.axis("second axis", [-REACH, REACH]),
        "equal": True,
        "alt": f"{len(y)} inputs of {classes} classes, seen along two axes of their class means.",
    }


def _cloud(points: np.ndarray, y: np.ndarray) -> Picture:
    return charts.points(points[:, 0], points[:, 1], y, names=NAMES, size=6)


def view(h: np.ndarray, y: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and their class means on two orthonormal axes, in units of the mean length of centred means.

    The axes are those in which the means come closest to the corners, by an orthogonal Procrustes problem.
    """
    means = np.stack([h[y == c].mean(axis=0) for c in range(classes)])
    centred = means - means.mean(axis=0)
    u, _, v = np.linalg.svd(centred.T @ corners(classes), full_matrices=False)
    axes = u @ v / np.linalg.norm(centred, axis=1).mean()
    return (h - means.mean(axis=0)) @ axes, centred @ axes


@functools.lru_cache(maxsize=16)
def program(width: int, classes: int) -> tuple[fw.MLP, Callable[..., Any]]:
    """A network and its training: Adam on cross-entropy with weight decay, a step that falls to zero."""
    net = fw.MLP((width,) * HIDDEN_LAYERS, "relu", n_out=classes)
    adam = optax.scale_by_adam()

    def loss(params, x, y, decay):
        entropy = -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(net.apply(params, x)), y[:, None], axis=1))
        return entropy + decay / 2 * sum(jnp.sum(w**2) for w in jax.tree.leaves(params))

    @jax.jit
    def train(params, memory, x, y, decay, first, last):
        def step(t, state):
            params, memory = state
            change, memory = adam.update(jax.grad(loss)(params, x, y, decay), memory, params)
            eta = ETA * (1 + jnp.cos(jnp.pi * t / STEPS)) / 2
            return jax.tree.map(lambda w, d: w - eta * d, params, change), memory

        return jax.lax.fori_loop(first, last, step, (params, memory))

    return net, train


def features(at: Specimen) -> np.ndarray:
    """What enters the last layer, (points, width)."""
    return np.asarray(at.look(np.zeros_like(at.outputs()))[-1].entering)


def pieces(state: State) -> Iterator[Picture]:
    """One network, looked at between stretches of training."""
    classes, decay = int(state["classes"]), float(state["decay"])
    x, y = inputs(str(state["data"]), classes, float(state["noise"]))
    net, train = program(int(state["width"]), classes)
    params = net.init(jax.random.key(1), N_IN)
    memory, at, first = optax.scale_by_adam().init(params), specimen(net, x, y, params=params), 0
    seen: list[list[float]] = []
    for last in RECORDS.tolist():
        params, memory = train(
            params, memory, x, y, jnp.asarray(decay), jnp.asarray(first), jnp.asarray(last)
        )
        at, first = at.at(np.asarray(ravel_pytree(params)[0])), last
        found = collapse(at)[-1]
        seen.append([getattr(found, name) for name in MEASURES])
        points, means = view(features(at), y, classes)
        right = float(np.mean(np.argmax(at.outputs(), axis=1) == y))
        yield {
            "done": last,
            "of": STEPS,
            "unit": "steps",
            "figures": {
                "features": [
                    _cloud(points, y),
                    charts.data(means[:, 0], means[:, 1], "class means"),
                ],
                "measures": [
                    charts.line(RECORDS[: len(seen)], np.maximum(row, FLOOR), name, tone, width=2.2)
                    for tone, (row, (name, _)) in enumerate(
                        zip(np.array(seen).T, MEASURES.values(), strict=True)
                    )
                ],
            },
            "numbers": [
                ["right answers", f"{100 * right:.0f} %", "on the training points"],
                *(
                    [name[:3], f"{v:.3f}", text]
                    for (name, text), v in zip(MEASURES.values(), seen[-1], strict=True)
                ),
            ],
        }


def code(state: State) -> str:
    """The same in Python."""
    centres = (
        "axes" if state["data"] == "corners" else f"np.linspace(-1, 1, {state['classes']})[:, None] * axes[0]"
    )
    return f"""import jax
import jax.numpy as jnp
import numpy as np
import optax
import finitewidth as fw
from finitewidth.measure import collapse, specimen

rng, y = np.random.default_rng(0), np.repeat(np.arange({state["classes"]}), {PER_CLASS})
axes = np.linalg.qr(rng.normal(size=({N_IN}, {state["classes"]})))[0].T * np.sqrt({N_IN})
centres = {centres}
x = centres[y] + {state["noise"]:g} * rng.normal(size=(len(y), {N_IN}))

net = fw.MLP(({state["width"]},) * {HIDDEN_LAYERS}, "relu", n_out={state["classes"]})
params = net.init(jax.random.key(1), {N_IN})
optimiser = optax.adam(optax.cosine_decay_schedule({ETA}, {STEPS}))


def loss(params):
    log_p = jax.nn.log_softmax(net.apply(params, jnp.asarray(x)))
    lengths = sum(jnp.sum(w**2) for w in jax.tree.leaves(params))
    return -jnp.mean(log_p[jnp.arange(len(y)), y]) + {state["decay"]:g} / 2 * lengths


@jax.jit
def step(_, state):
    change, memory = optimiser.update(jax.grad(loss)(state[0]), state[1])
    return optax.apply_updates(state[0], change), memory


trained, _ = jax.lax.fori_loop(0, {STEPS}, step, (params, optimiser.init(params)))
for name, weights in (("before", params), ("after", trained)):
    found = collapse(specimen(net, x, y, params=weights))[-1]
    print(name, found.variability, found.frame_distance, found.mismatch, found.self_duality)   # NC1 to NC4
"""


PAGE = Page(
    slug="collapse",
    order=11,
    title="Neural collapse",
    idea="Go on training a classifier long after its last mistake. Its features lose all that is special "
    "about a point: every class shrinks to its mean, and the means become the corners of a simplex, as far "
    "apart as can be.",
    formula=r"""\begin{aligned}
h_i &\to \mu_{c(i)} \\
\frac{\tilde\mu_c \cdot \tilde\mu_{c'}}{|\tilde\mu_c|\,|\tilde\mu_{c'}|} &\to -\frac{1}{C-1} \\
w_c &\propto \tilde\mu_c = \mu_c - \bar\mu
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("features", "The last features", ("classes",), draw_features, tall=True),
        Figure("measures", "Four signs of collapse", (), draw_measures),
        Figure("inputs", "The inputs, for comparison", ("data", "classes", "noise"), draw_inputs),
    ),
    experiment=Experiment(
        "features", "Train a classifier", ("data", "classes", "noise", "width", "decay"), pieces
    ),
    code=code,
    claims=(
        "nc1-variability-collapse",
        "nc2-simplex-frame",
        "nc3-nearest-class-mean",
        "nc4-self-duality",
        "feature-second-moment-split",
    ),
)
