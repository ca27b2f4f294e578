"""Among all perfect fits training picks one: the scale of the start decides, or the margin of classes."""

import functools
from collections.abc import Iterator

import numpy as np

from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults
from finitewidth.course.implicit_bias.networks.diagonal_networks import diagonal_flow
from finitewidth.course.implicit_bias.networks.margin_training import separable_flow
from finitewidth.course.implicit_bias.theory.diagonal import DiagonalNetwork, least_sum
from finitewidth.course.implicit_bias.theory.interpolators import descent_limit
from finitewidth.course.implicit_bias.theory.margin_time import time_to_margin
from finitewidth.course.implicit_bias.theory.max_margin import MaxMargin, max_margin

ALPHAS = 10.0 ** np.linspace(-3, 1, 17)
TRIED = 10.0 ** np.linspace(-3, 1, 9)
# Of the first class one point moves; the others of both classes stay.
FIXED = np.array([[1.6, 1.3], [0.5, 1.5], [-1.6, 0.6], [-1.6, -0.9], [-0.4, -1.7]])
SIGNS = np.array([1.0, 1.0, -1.0, -1.0, -1.0, 1.0])
REACH = 2.2
LOG10_TIMES = np.linspace(0.0, 30.0, 61)
# log10 t at which the direction is its limit, to about a hundredth of a degree.
END = 3000.0
# log10 t from which the law of late times is drawn.
LATE = 1.0
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

CONTROLS = (
    Slider("alpha", "Scale of the first weights α", -3, 1, 0.1, 0.1, log10=True),
    Slider("time", "Time of the classifier, log₁₀ t", 0.0, 30.0, 0.5, 3.0),
    Choice(
        "loss",
        "Loss of the classifier",
        (("logistic", "logistic"), ("exponential", "exponential")),
        "logistic",
    ),
    Slider("fit_1", "shortest fit, first weight", 0.1, 0.76, 0.02, 0.44, hidden=True),
    Slider("fit_2", "shortest fit, second weight", 0.1, 0.76, 0.02, 0.74, hidden=True),
    Slider("point_1", "point, first input", 0.3, 2.0, 0.05, 0.7, hidden=True),
    Slider("point_2", "point, second input", -1.2, 1.6, 0.05, -0.1, hidden=True),
)
FIT, POINT = ("fit_1", "fit_2"), ("point_1", "point_2")


def equation(state: State) -> tuple[np.ndarray, np.ndarray]:
    """One training point x.beta = y with |x| = 1, whose shortest solution is the handle."""
    handle = np.array([float(state[name]) for name in FIT])
    length = np.linalg.norm(handle)
    return handle[None] / length, np.array([length])


def classes(state: State) -> np.ndarray:
    """The points of both classes; the last one is the handle."""
    return np.vstack([FIXED, [float(state[name]) for name in POINT]])


# ---- theory ----------------------------------------------------------------------------------------


def draw_weights(state: State) -> Picture:
    """The line of all perfect fits, and three points on it."""
    x, y = equation(state)
    end = DiagonalNetwork(float(state["alpha"])).limit(x, y).weights
    sparse, short = least_sum(x, y).weights, descent_limit(x, y).weights
    along = np.array([[-2.0], [2.0]]) * np.array([-x[0, 1], x[0, 0]]) + short
    return {
        "layers": [
            charts.line(along[:, 0], along[:, 1], "perfect fits", 5),
            charts.points([sparse[0]], [sparse[1]], [2], size=13, name="fewest weights"),
            charts.points([short[0]], [short[1]], [3], size=13, name="shortest"),
            charts.points([end[0]], [end[1]], [0], size=11, name="theory"),
        ],
        "x": charts.axis("weight β₁", [-0.1, 1.4]),
        "y": charts.axis("weight β₂", [-0.1, 1.4]),
        "equal": True,
        "pick": list(FIT),
        "alt": f"Training from scale {state['alpha']:g} ends at ({end[0]:.3f}, {end[1]:.3f}); the sparse fit "
        f"is ({sparse[0]:.3f}, {sparse[1]:.3f}), the shortest ({short[0]:.3f}, {short[1]:.3f}).",
        "numbers": [
            ["|β₁| + |β₂|", f"{np.abs(end).sum():.3f}", f"least possible {np.abs(sparse).sum():.3f}"],
            ["length of β", f"{np.linalg.norm(end):.3f}", f"least possible {np.linalg.norm(short):.3f}"],
        ],
    }


@functools.lru_cache(maxsize=64)
def ends_of(fit_1: float, fit_2: float) -> np.ndarray:
    """Where training ends from every scale in ALPHAS, (scales, 2)."""
    x, y = equation({"fit_1": fit_1, "fit_2": fit_2})
    return np.array([DiagonalNetwork(alpha).limit(x, y).weights for alpha in ALPHAS])


def draw_ends(state: State) -> Picture:
    """Both weights at the end against the scale of the start."""
    ends = ends_of(float(state["fit_1"]), float(state["fit_2"]))
    return {
        "layers": [
            charts.theory(ALPHAS, ends[:, 0], "β₁ at the end", 0),
            charts.theory(ALPHAS, ends[:, 1], "β₂ at the end", 4),
            charts.rule(x=float(state["alpha"]), text="α", dash="dot"),
        ],
        "x": charts.axis(
            "scale of the first weights α",
            [8e-4, 12.5],
            log=True,
            ticks=(1e-3, 0.01, 0.1, 1.0, 10.0),
        ),
        "y": charts.axis("weights at the end", [-0.05, max(1.25, 1.1 * float(ends.max()))]),
        "alt": f"From small to large scales the first weight at the end goes from {ends[0, 0]:.3f} to "
        f"{ends[-1, 0]:.3f}, the second from {ends[0, 1]:.3f} to {ends[-1, 1]:.3f}.",
    }


@functools.lru_cache(maxsize=64)
def margin_of(point_1: float, point_2: float) -> MaxMargin:
    """The largest margin of the two classes."""
    return max_margin(classes({"point_1": point_1, "point_2": point_2}), SIGNS)


def _margin(state: State) -> MaxMargin:
    return margin_of(float(state["point_1"]), float(state["point_2"]))


@functools.lru_cache(maxsize=64)
def almost_there(point_1: float, point_2: float, loss: str) -> float:
    """log10 t at which gradient flow has 99 % of the largest margin."""
    return time_to_margin(margin_of(point_1, point_2), 0.99, loss=loss).log_time / np.log(10)  # type: ignore[arg-type]


def boundary(weights: np.ndarray, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The line w.x = shift, far enough in both directions."""
    size = np.linalg.norm(weights)
    foot, along = shift * weights / size**2, np.array([-weights[1], weights[0]]) / size
    ends = foot + np.array([[-4.0], [4.0]]) * along
    return ends[:, 0], ends[:, 1]


def draw_classes(state: State) -> Picture:
    """Two classes, the line with the largest margin, and the points that hold it."""
    found = _margin(state)
    points = classes(state)
    held = points[found.support]
    layers: list[Picture] = []
    for shift, name in ((0.0, "largest margin"), (1.0, ""), (-1.0, "")):
        line = boundary(found.weights, shift)
        style = {"dash": "dot", "width": 1.2}
        layers.append(charts.line(*line, name, 0, **style) if shift else charts.theory(*line, name, 0))
    layers += [
        charts.points(
            points[:, 0],
            points[:, 1],
            np.where(SIGNS > 0, 2, 3),
            size=10,
            names=["", "", "one class", "the other"],
        ),
        charts.points(held[:, 0], held[:, 1], [5] * len(held), size=17, open=True, name="hold the margin"),
    ]
    exponent = almost_there(*(float(state[name]) for name in POINT), str(state["loss"]))
    return {
        "layers": [layers[-1], *layers[:-1]],
        "x": charts.axis("first input", [-REACH, REACH]),
        "y": charts.axis("second input", [-REACH, REACH]),
        "equal": True,
        "pick": list(POINT),
        "alt": f"Two classes of three points each; the largest margin is {found.margin:.3f}, held by "
        f"{len(found.support)} points.",
        "numbers": [
            ["margin", f"{found.margin:.3f}", "the largest distance that a line can keep"],
            [
                "99 % of it",
                f"t = 10{str(round(exponent)).translate(RAISED)}",
                "when gradient flow gets there",
            ],
        ],
    }


def draw_angle(state: State) -> Picture:
    """The angle to the largest margin against log t."""
    found = _margin(state)
    times = LOG10_TIMES[LOG10_TIMES >= LATE]
    angles = np.degrees([found.angle_at(t * np.log(10)) for t in times])
    law = charts.theory(times, angles, "theory of late times, c / log t", 0)
    known = found.spans
    return {
        "layers": [
            *([law] if known else []),
            charts.rule(x=float(state["time"]), text="now", dash="dot"),
        ],
        "x": charts.axis("log₁₀ of the time t", [0, 30]),
        "y": charts.axis("angle, degrees", [0, max(10.0, 1.1 * min(60.0, angles[1]))]),
        "labels": []
        if known
        else [{"text": "one point holds the margin: no law without the start", "x": 0.5, "y": 0.9}],
        "alt": f"The angle to the largest margin: {angles[0]:.1f} degrees at t = 10 by the late law, "
        f"{angles[-1]:.2f} at t = 10^30."
        if known
        else "One point alone holds the margin, and no law of the angle is known.",
        "numbers": [
            ["angle × log t", f"{found.direction_constant:.2f}" if known else "open", "its limit, in radians"]
        ],
    }


# ---- networks --------------------------------------------------------------------------------------


def measured_weights(state: State) -> Picture:
    """The way of a real network u² - v² under gradient flow."""
    x, y = equation(state)
    start = np.full(2, float(state["alpha"]))
    path = np.asarray(diagonal_flow(x, y, start, times=np.geomspace(1e-4, 60.0, 120) / y).beta)
    return {
        "layers": [
            charts.line(path[:, 0], path[:, 1], "a real network", 1, width=2.4),
            charts.measured(path[-1:, 0], path[-1:, 1], "", 1),
        ]
    }


@functools.lru_cache(maxsize=64)
def flow(point_1: float, point_2: float, loss: str) -> np.ndarray:
    """Weights of a linear classifier under gradient flow from zero, at the LOG10_TIMES and at the END."""
    points = classes({"point_1": point_1, "point_2": point_2})
    return separable_flow(points, SIGNS, np.append(LOG10_TIMES, END) * np.log(10), loss=loss)  # type: ignore[arg-type]


def _flow(state: State) -> np.ndarray:
    return flow(float(state["point_1"]), float(state["point_2"]), str(state["loss"]))


def measured_classes(state: State) -> Picture:
    """Where the classifier stands at the chosen time."""
    now = _flow(state)[np.argmin(np.abs(LOG10_TIMES - float(state["time"])))]
    x, y = boundary(now)
    return {"layers": [charts.line(x, y, "the classifier now", 1, width=2.2)]}


def measured_angle(state: State) -> Picture:
    """Its angle to where it is at the END."""
    *weights, late = _flow(state)
    late = late / np.linalg.norm(late)
    across = np.array(weights) @ np.array([-late[1], late[0]])
    angles = np.degrees(np.abs(np.arctan2(across, np.array(weights) @ late)))
    shown = slice(0, None, 2)
    return {"layers": [charts.measured(LOG10_TIMES[shown], angles[shown], "real training", 1)]}


def pieces(state: State) -> Iterator[Picture]:
    """Real networks from starts of nine scales, each trained until nothing is left of its error."""
    x, y = equation(state)
    ends = []
    for i, alpha in enumerate(TRIED):
        ends.append(np.asarray(diagonal_flow(x, y, np.full(2, alpha)).beta))
        seen = np.array(ends)
        layers = [
            charts.measured(TRIED[: i + 1], seen[:, k], "real networks" if not k else "", 1) for k in (0, 1)
        ]
        fitted = np.abs(seen @ x[0] - y[0]).max()
        yield {
            "done": i + 1,
            "of": len(TRIED),
            "layers": layers,
            "numbers": [["largest error", f"{fitted:.0e}", "every one of them fits perfectly"]],
        }


def code(state: State) -> str:
    """The same in Python."""
    x, y = equation(state)
    rows = ", ".join(f"[{a:g}, {b:g}]" for a, b in classes(state))
    return f"""import numpy as np
from finitewidth.course.implicit_bias.theory import (
    DiagonalNetwork, descent_limit, least_sum, max_margin, time_to_margin
)
from finitewidth.course.implicit_bias.networks import diagonal_flow, separable_flow

alpha = {state["alpha"]:g}
x, y = np.array([[{x[0, 0]:.12g}, {x[0, 1]:.12g}]]), np.array([{y[0]:.12g}])
print("theory:  ends at", DiagonalNetwork(alpha).limit(x, y).weights)
print("network: ends at", diagonal_flow(x, y, np.full(2, alpha)).beta)
print("sparsest", least_sum(x, y).weights, "shortest", descent_limit(x, y).weights)

points = np.array([{rows}])
signs = np.array({SIGNS.tolist()})
log_t, loss = {float(state["time"]):g} * np.log(10), {state["loss"]!r}
margin = max_margin(points, signs)
w = separable_flow(points, signs, np.array([log_t]), loss=loss)[0]
angle = np.arccos(np.clip(w @ margin.direction / np.linalg.norm(w), -1, 1))
print("angle to the largest margin", np.degrees(angle))
print("by the law of late times   ", np.degrees(margin.angle_at(log_t)))
late = time_to_margin(margin, 0.99, loss=loss)
print("99 % of the margin at log10 t =", late.log_time / np.log(10))
"""


def warm() -> None:
    """Compile the flow."""
    state = defaults(CONTROLS)
    for figure in PAGE.figures:
        figure.picture(state)


PAGE = Page(
    slug="bias",
    order=10,
    title="Which perfect fit?",
    idea="With more weights than data many fits are perfect, and training still ends at one of them. In a "
    "network β = u² − v² a small start picks the fit with few weights, a large start the shortest one. A "
    "classifier turns to the largest margin, but as slowly as 1 / log t.",
    formula=r"""\begin{aligned}
\beta_\infty &= \arg\min_{x \cdot \beta = y} \sum_i \alpha^2 q\!\left(\beta_i/\alpha^2\right) \\
q(z) &= 2 - \sqrt{4 + z^2} + z \operatorname{arcsinh}\tfrac z2 \\
w(t) &= \hat w \log t + \tilde w + o(1), \quad \hat w \text{ the largest margin}
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure(
            "weights",
            "Perfect fits of one equation (drag)",
            ("alpha", *FIT),
            draw_weights,
            measured=measured_weights,
        ),
        Figure(
            "classes", "Two classes (drag)", ("time", "loss", *POINT), draw_classes, measured=measured_classes
        ),
        Figure("ends", "The start decides where training ends", ("alpha", *FIT), draw_ends),
        Figure(
            "angle",
            "The turn to the largest margin",
            ("time", "loss", *POINT),
            draw_angle,
            measured=measured_angle,
        ),
    ),
    experiment=Experiment("ends", "Train nine networks", FIT, pieces),
    code=code,
    claims=(
        "gd-min-norm",
        "diagonal-implicit-bias",
        "diagonal-small-scale-limit",
        "diagonal-large-scale-limit",
        "max-margin-direction",
        "logistic-log-t-law",
    ),
    warm=warm,
)
