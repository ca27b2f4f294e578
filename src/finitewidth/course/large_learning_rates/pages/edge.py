"""Training makes its own loss sharper, until the step is as large as stability allows."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State
from finitewidth.measure.loss.stability import EdgeOfStability, edge_of_stability, stability_limit

POINTS, N_IN, SEED = 32, 4, 3
# Steps of one call, steps between two records, and how much smaller the other step is.
CHUNK, EVERY, SMALLER = 50, 10, 2
# The length of a training in steps times eta, in so many pieces.
TIME, PIECES = 200.0, 40
LEAST_LOSS = 1e-9

TARGETS = {
    "waves": ("a wave and a product", "jnp.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]"),
    "signs": ("two classes, a chessboard", "jnp.sign(x[:, :1] * x[:, 1:2])"),
    "line": ("a straight line", "x[:, :1] - 0.5 * x[:, 1:2]"),
}

CONTROLS = (
    Slider("eta", "Step η", -1.5, -0.4, 0.1, 0.1, log10=True),
    Slider("width", "Width of both hidden layers", 3, 6, 1, 32, log2=True),
    Choice("data", "What is learnt", tuple((k, text) for k, (text, _) in TARGETS.items()), "waves"),
)
OWN, OTHER = "your step η", f"the step η/{SMALLER}"


def limits(eta: float) -> tuple[float, float]:
    """The sharpness above which gradient descent oscillates, for the step and for the smaller one."""
    return stability_limit("sgd") / eta, stability_limit("sgd") / (eta / SMALLER)


def draw_sharpness(state: State) -> Picture:
    """The two limits, which training has yet to meet."""
    eta = float(state["eta"])
    own, other = limits(eta)
    return {
        "layers": [
            charts.rule(y=own, text=f"2/η = {own:.3g}", tone=0),
            charts.rule(y=other, text=f"the limit of η/{SMALLER}: {other:.3g}", tone=5),
        ],
        "x": charts.axis("time, steps × η", [0, TIME]),
        "y": charts.axis("sharpness, the largest curvature", [0, 1.12 * other]),
        "alt": f"Gradient descent with step {eta:g} is stable below a curvature of {own:.3g}; with a step of "
        f"{eta / SMALLER:.3g}, below {other:.3g}.",
        "numbers": [["limit 2/η", f"{own:.3g}", "beyond it a step overshoots by more than it corrects"]],
    }


def draw_loss(state: State) -> Picture:
    """Axes for the loss: no theory says how it falls."""
    return {
        "layers": [],
        "x": charts.axis("time, steps × η", [0, TIME]),
        "y": charts.axis("loss", [1e-5, 2.0], log=True),
        "alt": "The loss over training; networks fill it.",
    }


def draw_factor(state: State) -> Picture:
    """What one step does to an error along a direction of curvature lambda."""
    eta = float(state["eta"])
    own, _ = limits(eta)
    curvature = np.linspace(0, 1.5 * own, 101)
    return {
        "layers": [
            charts.rule(y=1.0, text="grows above"),
            charts.rule(x=own, text="2/η", tone=0),
            charts.theory(curvature, np.abs(1 - eta * curvature), "|1 − ηλ|", 0),
        ],
        "x": charts.axis("curvature λ", [0, 1.5 * own]),
        "y": charts.axis("factor of one step", [0, 2.05]),
        "alt": f"One step multiplies an error by |1 - eta lambda|: below 1 up to a curvature of {own:.3g}.",
    }


@functools.lru_cache(maxsize=16)
def problem(width: int, data: str) -> tuple[Callable[[Any], Any], Any]:
    """The loss of a network as a function of its parameters, and its random start."""
    x = jax.random.normal(jax.random.key(2), (POINTS, N_IN))
    y = labels_of(data, x)
    net = fw.MLP((width, width), "tanh", C_b=0.0, C_W=0.5, parametrisation="standard")
    return lambda params: 0.5 * jnp.mean((net.apply(params, x) - y) ** 2), net.init(
        jax.random.key(SEED), N_IN
    )


def labels_of(data: str, x: jax.Array) -> jax.Array:
    """Labels of the inputs."""
    if data == "waves":
        return jnp.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return jnp.sign(x[:, :1] * x[:, 1:2]) if data == "signs" else x[:, :1] - 0.5 * x[:, 1:2]


class Training:
    """Gradient descent on a network, some steps at a time."""

    def __init__(self, width: int, data: str, eta: float):
        self.loss, self.params = problem(width, data)
        self.eta, self.steps = eta, 0
        self.times: list[float] = []
        self.losses: list[float] = []
        self.sharpness: list[float] = []

    @property
    def diverged(self) -> bool:
        """Whether the loss has run away."""
        return bool(self.losses) and not np.isfinite(self.losses[-1])

    def go_on(self, until: float) -> None:
        """Train up to a time, steps times eta."""
        while self.steps * self.eta < until and not self.diverged:
            run: EdgeOfStability = edge_of_stability(
                self.loss, self.params, learning_rate=self.eta, steps=CHUNK, record_every=EVERY
            )
            # The last record is the first of the next call.
            self.times += (self.eta * (self.steps + run.times[:-1])).tolist()
            self.losses += run.losses[:-1].tolist()
            self.sharpness += run.sharpness[:-1].tolist()
            self.params, self.steps = run.params, self.steps + CHUNK

    def late(self) -> float:
        """eta times sharpness over two, averaged over the last quarter."""
        return float(np.mean(self.sharpness[3 * len(self.sharpness) // 4 :])) * self.eta / 2


def pieces(state: State) -> Iterator[Picture]:
    """Two trainings of one network side by side: with the step, and with a smaller one."""
    eta, width, data = float(state["eta"]), int(state["width"]), str(state["data"])
    own, other = Training(width, data, eta), Training(width, data, eta / SMALLER)
    for piece in range(1, PIECES + 1):
        for training in (own, other):
            training.go_on(TIME * piece / PIECES)
        yield {
            "done": own.steps,
            "of": int(np.ceil(TIME / eta / CHUNK) * CHUNK) if piece < PIECES else own.steps,
            "unit": "steps",
            "figures": {
                "sharpness": [
                    *_curve(other, "sharpness", OTHER, 5, 1.3),
                    *_curve(own, "sharpness", OWN, 1, 2.0),
                ],
                "loss": [*_curve(other, "losses", OTHER, 5, 1.3), *_curve(own, "losses", OWN, 1, 1.4)],
                "factor": _at_the_end(own),
            },
            "numbers": _numbers(own),
        }
        if own.diverged:
            return


def _curve(training: Training, quantity: str, name: str, tone: int, width: float) -> list[Picture]:
    x, y = np.array(training.times), np.array(getattr(training, quantity))
    # No screen shows more points than this.
    stride = max(1, len(x) // 400)
    y = np.where(y > LEAST_LOSS, y, LEAST_LOSS) if quantity == "losses" else y
    return [charts.line(x[::stride], y[::stride], name, tone, width=width)]


def _at_the_end(training: Training) -> list[Picture]:
    top, loss = training.sharpness[-1], training.losses[-1]
    if not (np.isfinite(top) and np.isfinite(loss)):
        return []
    return [charts.measured([top], [abs(1 - training.eta * top)], "the sharpest direction now", 1)]


def _numbers(training: Training) -> list[list[str]]:
    losses = np.array(training.losses)
    if training.diverged:
        return [["training", "diverged", f"after about {training.steps} steps"]]
    rises = float(np.mean(np.diff(losses) > 0))
    return [
        ["sharpness / (2/η)", f"{training.late():.2f}", "mean over the last quarter"],
        ["loss", f"{losses[-1]:.2g}", f"after {training.steps} steps"],
        ["rises", f"{100 * rises:.0f} %", f"of all stretches of {EVERY} steps"],
    ]


def code(state: State) -> str:
    """The same in Python."""
    steps = int(np.ceil(TIME / float(state["eta"]) / CHUNK) * CHUNK)
    return f"""import jax
import jax.numpy as jnp
import finitewidth as fw
from finitewidth.measure import edge_of_stability

x = jax.random.normal(jax.random.key(2), ({POINTS}, {N_IN}))
y = {TARGETS[str(state["data"])][1]}
net = fw.MLP(({state["width"]}, {state["width"]}), "tanh", C_b=0.0, C_W=0.5, parametrisation="standard")
params = net.init(jax.random.key({SEED}), {N_IN})


def loss(params):
    return 0.5 * jnp.mean((net.apply(params, x) - y) ** 2)


run = edge_of_stability(loss, params, learning_rate={state["eta"]:g}, steps={steps}, record_every={EVERY})
# run.times, run.losses and run.sharpness are the curves
print("sharpness / (2 / eta):", run.start, "at the start,", run.late, "late")
print("first there at step", run.arrival())
"""


PAGE = Page(
    slug="edge",
    order=9,
    title="The edge of stability",
    idea="Gradient descent with step η is stable where the curvature is below 2/η. Training does not keep "
    "away from that limit: it makes the loss sharper and sharper, comes to the limit by itself, and stays "
    "there.",
    formula=r"""\lambda_{max} \to \frac{2}{\eta}, \qquad
\text{since one step multiplies an error by } 1 - \eta\lambda""",
    controls=CONTROLS,
    figures=(
        Figure("sharpness", "Sharpness rises to 2/η", ("eta",), draw_sharpness, tall=True),
        Figure("loss", "The loss falls, but not at every step", (), draw_loss),
        Figure("factor", "What one step does to an error", ("eta",), draw_factor),
    ),
    experiment=Experiment("sharpness", "Train a network", ("eta", "width", "data"), pieces),
    code=code,
    claims=(
        "edge-of-stability",
        "catapult-phases-general",
        "gradient-in-top-eigenspace",
        "hessian-bulk-and-outliers",
    ),
)
