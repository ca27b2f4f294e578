"""Steps above the limit of a linear model: the loss shoots up, the kernel falls, and training converges."""

import functools
from collections.abc import Iterator

import numpy as np

from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults
from finitewidth.course.large_learning_rates.networks import one_point
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork, Phase
from finitewidth.course.large_learning_rates.theory.catapult_relu import relu_catapult

MOST_STEPS, NETWORKS = 100, 3
# The first output of every network; labels are zero.
OUTPUT = 1.0
EDGES = {"frozen": np.linspace(0.5, 5.0, 361), "real": np.linspace(0.5, 5.0, 91)}
TRIED = np.concatenate([np.arange(0.5, 4.0, 0.25), [4.1, 4.4, 4.7, 5.0]])
TRIED_STEPS = 200
# Losses above are not drawn, and a kernel of so many times 1/eta has run away.
HIGHEST, ESCAPED = 1e12, 100.0

CONTROLS = (
    Slider("edge", "Step times kernel, ηλ₀", 0.5, 5.0, 0.05, 2.8, hint="a linear model diverges above 2"),
    Slider("width", "Width m", 2, 4.5, 0.5, 10_000, log10=True, whole=True),
    Choice(
        "gates",
        "ReLU units",
        (("frozen", "stay on or off as they began"), ("real", "may switch off")),
        "frozen",
        hint="the first kind follows the recursion exactly",
    ),
    Slider("steps", "Steps shown", 10, MOST_STEPS, 5, 20, whole=True),
)
PATH = ("edge", "width", "gates", "steps")


@functools.lru_cache(maxsize=256)
def law(edge: float, width: int, gates: str) -> tuple[np.ndarray, np.ndarray]:
    """Losses and eta lambda before and after every step, by the recursion or by the average over angles."""
    if gates == "real":
        path = relu_catapult(edge, width, output=OUTPUT, steps=MOST_STEPS)
        return np.asarray(path.outputs) ** 2 * width / 2, edge * np.asarray(path.kernels)
    path = OnePointNetwork.of_width(width, OUTPUT).descend(edge, MOST_STEPS)
    return np.asarray(path.losses), np.asarray(path.sharpness)


@functools.lru_cache(maxsize=16)
def ends(width: int, gates: str) -> np.ndarray:
    """eta lambda after training, for every step in EDGES[gates]; NaN where training runs away."""
    edges = EDGES[gates]
    if gates == "real":
        paths = [
            relu_catapult(e, width, output=OUTPUT, steps=TRIED_STEPS, angles=1000) for e in edges.tolist()
        ]
        return edges * np.array([path.kernels[-1] for path in paths])
    found = OnePointNetwork.of_width(width, OUTPUT).phases(edges)
    return np.where(np.asarray(found.diverges), np.nan, np.asarray(found.sharpness))


def visible(values: np.ndarray) -> np.ndarray:
    """What fits into the picture; the rest is a gap."""
    return np.where(np.abs(values) < HIGHEST, values, np.nan)


def phase_of(state: State) -> str:
    """How training ends with the gates frozen, in a word."""
    network = OnePointNetwork.of_width(int(state["width"]), OUTPUT)
    return Phase(int(network.phases(float(state["edge"])).phase)).name.lower()


WORDS = {
    "lazy": "the loss falls, the kernel stays",
    "catapult": "up first, then down into a flatter place",
    "divergent": "no return",
    "undecided": "too slow to tell",
    "all off": "every unit switches off: nothing is learnt",
}


def draw_loss(state: State) -> Picture:
    """The loss over the steps."""
    edge, width, gates, steps = _read(state)
    losses, sharpness = law(edge, width, gates)
    shown = visible(losses[: steps + 1])
    top = float(np.nanmax(shown))
    phase = phase_of(state)
    if gates == "real" and phase == "divergent":
        phase = "all off" if sharpness[-1] < 1e-3 else "catapult"
    last = f"{losses[steps]:.3g} at the end" if losses[steps] < HIGHEST else "ever more"
    low = max(1e-6, float(np.nanmin(shown)) / 2)
    climb = losses[: steps + 1].argmax() if phase == "catapult" else 0
    return {
        "layers": [
            charts.theory(np.arange(steps + 1), shown, "theory", 0),
        ],
        "x": charts.axis("step", [-0.02 * steps, 1.02 * steps]),
        "y": charts.axis("loss", [min(low, 0.05), max(3 * top, 2.0)], log=True),
        "alt": f"Loss over {steps} steps at eta lambda = {edge:g}: from {losses[0]:.2g} up to {top:.3g} and "
        f"then {last}; {phase}.",
        "numbers": [
            ["phase", phase, WORDS[phase]],
            *(
                [
                    ["steps to the top", f"{climb}", "grows like log m"],
                    ["loss at the top", f"{top / width:.2g} m", "m is the width"],
                ]
                if phase == "catapult"
                else []
            ),
        ],
    }


def draw_sharpness(state: State) -> Picture:
    """eta lambda over the steps, against the limit of a linear model."""
    edge, width, gates, steps = _read(state)
    _, sharpness = law(edge, width, gates)
    shown = np.where(sharpness[: steps + 1] < 2 * ESCAPED, sharpness[: steps + 1], np.nan)
    last = f"{sharpness[steps]:.2f}" if sharpness[steps] < ESCAPED else "runs away"
    return {
        "layers": [
            charts.rule(y=2.0, text="2: stable below"),
            charts.theory(np.arange(steps + 1), shown, "theory", 0),
        ],
        "x": charts.axis("step", [-0.02 * steps, 1.02 * steps]),
        "y": charts.axis("ηλ", [0, max(2.6, 1.15 * edge)]),
        "alt": f"eta lambda starts at {edge:g}; after {steps} steps: {last}.",
        "numbers": [["ηλ at the end", last, "flatter than at the start" if edge > 2 else "as at the start"]],
    }


def draw_ends(state: State) -> Picture:
    """eta lambda at the end for every step that one could take."""
    width, gates = int(state["width"]), str(state["gates"])
    return {
        "layers": [
            charts.line([0.5, 5], [0.5, 5], "as it began", 5, dash="dot"),
            charts.rule(x=2.0, text="2"),
            charts.rule(x=4.0, text="4"),
            charts.theory(EDGES[gates], ends(width, gates), "theory, after training", 0),
            charts.rule(x=float(state["edge"]), text="", dash="solid", tone=1),
        ],
        "x": charts.axis("ηλ₀ at the start", [0.5, 5]),
        "y": charts.axis("ηλ at the end", [0, 2.6]),
        "alt": "eta lambda at the end against its start: equal below 2, smaller than 2 between 2 and 4"
        + (", nothing above 4." if gates == "frozen" else "; close to zero far above 4."),
    }


@functools.lru_cache(maxsize=8)
def starts(width: int) -> one_point.Weights:
    """Real networks of one input and one hidden layer, at random weights."""
    return one_point.draw(np.random.default_rng(width), NETWORKS, width, 1, OUTPUT)


@functools.lru_cache(maxsize=64)
def trained(edge: float, width: int, gates: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses and eta lambda (times, networks) of real gradient descent on all weights."""
    start = starts(width)
    with np.errstate(over="ignore", invalid="ignore"):
        run = one_point.train(start, 0.0, edge / start.kernels, steps, frozen=gates == "frozen")
        return run.outputs**2 / 2, run.kernels / run.kernels[0] * edge


def _points(values: np.ndarray, most: float, name: str) -> list[Picture]:
    """The mean of the networks, at about thirty steps."""
    times = np.unique(np.linspace(0, len(values) - 1, min(len(values), 31)).round().astype(int))
    seen = np.where((values < most).all(axis=1, keepdims=True), values, np.nan)[times]
    err = 2 * seen.std(axis=1, ddof=1) / np.sqrt(NETWORKS)
    return [charts.measured(times, seen.mean(axis=1), name, 1, err=err)]


def measured_loss(state: State) -> Picture:
    """The loss of real networks."""
    edge, width, gates, steps = _read(state)
    losses, _ = trained(edge, width, gates, steps)
    return {"layers": _points(losses, HIGHEST, f"{NETWORKS} real networks, mean ± 2 s.e.")}


def measured_sharpness(state: State) -> Picture:
    """eta lambda of real networks."""
    edge, width, gates, steps = _read(state)
    _, sharpness = trained(edge, width, gates, steps)
    return {"layers": _points(sharpness, 2 * ESCAPED, "real networks")}


def pieces(state: State) -> Iterator[Picture]:
    """Real networks trained with one step after the other, from small to large."""
    width, gates = int(state["width"]), str(state["gates"])
    found, runaway = [], None
    for i, edge in enumerate(TRIED):
        end = trained(float(edge), width, gates, TRIED_STEPS)[1][-1]
        lost = not (end < ESCAPED).all()
        runaway = float(edge) if lost and runaway is None else runaway
        found.append(np.nan if lost else end.mean())
        layer = charts.measured(TRIED[: i + 1], np.array(found), f"{NETWORKS} real networks each", 1)
        yield {
            "done": i + 1,
            "of": len(TRIED),
            "unit": "steps η",
            "layers": [layer],
            "numbers": [
                [
                    "runs away from",
                    f"ηλ₀ = {runaway:g}" if runaway else "none",
                    "of the steps that were tried",
                ]
            ],
        }


def code(state: State) -> str:
    """The same in Python."""
    edge, width, gates, steps = _read(state)
    theory = (
        f"""path = relu_catapult(edge, width, output={OUTPUT:g}, steps=steps)     # units may switch off
losses, sharpness = path.outputs**2 * width / 2, edge * path.kernels"""
        if gates == "real"
        else f"""path = OnePointNetwork.of_width(width, output={OUTPUT:g}).descend(edge, steps)
losses, sharpness = path.losses, path.sharpness"""
    )
    return f"""import numpy as np
from finitewidth.course.large_learning_rates.theory import OnePointNetwork, relu_catapult

edge, width, steps = {edge:g}, {width}, {steps}
{theory}
print("theory:  largest loss", float(losses.max()), " eta lambda at the end", float(sharpness[-1]))

rng = np.random.default_rng(0)                    # a real network of one input, x = 1, label 0
u, v = rng.normal(size=(2, width))
on = u >= 0
v += ({OUTPUT:g} * np.sqrt(width) - v[on] @ u[on]) / (u[on] @ u[on]) * np.where(on, u, 0)
eta, seen = edge * width / (u[on] @ u[on] + v[on] @ v[on]), []
for _ in range(steps + 1):
    z = v[on] @ u[on] / np.sqrt(width)
    seen.append((z**2 / 2, eta * (u[on] @ u[on] + v[on] @ v[on]) / width))
    if abs(z) > 1e60:
        break
    pull = eta * z / np.sqrt(width)
    u, v = np.where(on, u - pull * v, u), np.where(on, v - pull * u, v)
    {"on = on & (u >= 0)" if gates == "real" else "# the gates stay as they were"}
print("network: largest loss", max(loss for loss, _ in seen), " eta lambda at the end", seen[-1][1])
"""


def _read(state: State) -> tuple[float, int, str, int]:
    return float(state["edge"]), int(state["width"]), str(state["gates"]), int(state["steps"])


def warm() -> None:
    """Compile both laws."""
    state = defaults(CONTROLS)
    for gates in ("frozen", "real"):
        for figure in PAGE.figures:
            figure.picture({**state, "gates": gates})


PAGE = Page(
    slug="catapult",
    order=8,
    title="The catapult",
    idea="A step above 2/λ should make the loss explode. In a wide network the loss does shoot up, but "
    "on the way the kernel λ falls, until the step is stable again: training ends in a flatter place. Only "
    "above 4/λ is there no return.",
    formula=r"""\begin{aligned}
z' &= z\,\left(1 - \eta\lambda + \tfrac{\eta^2}{m}\, z^2\right) \\
\lambda' &= \lambda - \tfrac{\eta}{m}\, z^2\, (4 - \eta\lambda)
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure(
            "loss", "The loss goes up, and comes back", PATH, draw_loss, tall=True, measured=measured_loss
        ),
        Figure(
            "sharpness", "The kernel falls below the limit", PATH, draw_sharpness, measured=measured_sharpness
        ),
        Figure("ends", "How it ends, for every step", ("edge", "width", "gates"), draw_ends),
    ),
    experiment=Experiment("ends", "Train at many steps", ("width", "gates"), pieces),
    code=code,
    claims=(
        "catapult-residual-recursion",
        "catapult-kernel-recursion",
        "catapult-phase-boundaries",
        "catapult-time-and-height",
        "catapult-divergence-law",
        "catapult-real-relu-differs",
    ),
    warm=warm,
)
