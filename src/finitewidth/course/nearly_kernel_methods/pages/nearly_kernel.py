"""Nearly-kernel methods: a model that learns a little of its features, and how much of that is best."""

import functools
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.models.taylor_models import FeatureTable
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults
from finitewidth.nearly_kernel_methods.representation import (
    BestEpsilon,
    Deformation,
    best_epsilon,
    deformation,
    scan_epsilon,
)
from finitewidth.networks.training.weight_space import train_weights

X = np.array([-0.9, -0.55, -0.2, 0.3, 0.6, 0.95])
GRID = np.linspace(-1.0, 1.0, 97)
FREQUENCIES = np.array([0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0])
PHASES = np.array([0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5]) * np.pi
FAST = np.array([5.0, 6.0, 7.0, 8.0, 9.0])
SIZE, TEACHER, FITTED = 0.2, 0.25, 1e-4
TEACHERS_SEED, OTHER_SEED = 8, 20
SCAN = np.linspace(-0.1, 0.6, 15)
EPSILONS = np.linspace(-0.1, 0.6, 141)
PSI = {
    "useful": "the teacher's",
    "unrelated": "unrelated ones",
    "opposite": "the teacher's with the wrong sign",
}
ALGORITHMS = {"direct": "solved at once", "descent": "gradient descent", "flow": "gradient flow"}

CONTROLS = (
    Slider("epsilon", "Feature learning ε", -0.1, 0.6, 0.01, 0.15),
    Choice("psi", "Meta features ψ", tuple(PSI.items()), "useful"),
    Choice("algorithm", "Algorithm", tuple(ALGORITHMS.items()), "direct"),
    Slider("step", "Step size η λ_max of gradient descent", 0.1, 1.9, 0.1, 1.0),
)
ALL = ("epsilon", "psi", "algorithm", "step")


class Problem(NamedTuple):
    """Features (points, features) and meta features (points, features, features) of data and grid; labels."""

    phi: np.ndarray
    psi: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def features(x: np.ndarray) -> np.ndarray:
    """Waves, the slow ones larger."""
    return np.cos(x[:, None] * FREQUENCIES * np.pi / 2 - PHASES) / (1 + FREQUENCIES)


def meta_features(x: np.ndarray, seed: int) -> np.ndarray:
    """Random mixtures of waves that the features cannot make, one for every pair of weights."""
    count = len(FREQUENCIES)
    mixing = np.random.default_rng(seed).normal(size=(len(FAST), count, count))
    symmetric = (mixing + mixing.transpose(0, 2, 1)) / 2
    waves = np.cos(np.outer(x, FAST) - FAST)
    return SIZE * np.einsum("na,ajk->njk", waves, symmetric)


@functools.cache
def problem(psi: str) -> Problem:
    """A teacher that learns features, and a student with its meta features, with others, or with -psi."""
    x = np.concatenate([X, GRID])
    phi, bend = features(x), meta_features(x, TEACHERS_SEED)
    n = len(X)
    # The teacher's weights lie in the span of the training features, so that the data can show them.
    w = phi[:n].T @ np.linalg.solve(phi[:n] @ phi[:n].T, np.sin(3 * X) + 0.4 * X)
    truth = phi @ w + TEACHER / 2 * np.einsum("j,njk,k->n", w, bend, w)
    chosen = {"useful": bend, "opposite": -bend, "unrelated": meta_features(x, OTHER_SEED)}[psi]
    return Problem(phi, chosen, truth[:n], truth[n:])


@functools.cache
def largest() -> float:
    """The largest eigenvalue of the training kernel."""
    phi = features(X)
    return float(np.linalg.eigvalsh(phi @ phi.T)[-1])


def algorithm_of(state: State) -> SpectralAlgorithm:
    """How the student learns."""
    if state["algorithm"] == "flow":
        return fw.GradientFlow()
    if state["algorithm"] == "descent":
        return fw.GradientDescent(float(state["step"]) / largest())
    return fw.DirectOptimization()


# ---- theory ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def series_of(psi: str, algorithm: str, step: float) -> Deformation:
    """Outputs on the grid in powers of epsilon; the second is known for direct optimisation only."""
    phi, bend, y, _ = problem(psi)
    A, B = slice(None, len(X)), slice(len(X), None)
    k = phi @ phi[A].T
    mu = lambda at, left: np.einsum("bj,ajk,ck->abc", phi[left], bend[at], phi[A])
    kernels = (k[A], k[B], mu(A, A), mu(B, A), mu(A, B))
    if algorithm == "direct":
        return deformation(*kernels, y)
    with warnings.catch_warnings():
        # Epsilon is one here: the coefficient may be large.
        warnings.simplefilter("ignore", UserWarning)
        machine = fw.nearly_kernel(*kernels, y, algorithm_of({"algorithm": algorithm, "step": step}))
    return Deformation(machine.linear, machine.correction, jnp.zeros_like(machine.linear))


def series(state: State) -> Deformation:
    """The series of this state."""
    return series_of(str(state["psi"]), str(state["algorithm"]), float(state["step"]))


def second_order(state: State) -> BestEpsilon | None:
    """Slope, curvature and minimum of the test loss; None where the second order is not known."""
    if state["algorithm"] != "direct":
        return None
    with warnings.catch_warnings():
        # Without a minimum epsilon is NaN, and the page says so.
        warnings.simplefilter("ignore", UserWarning)
        return best_epsilon(series(state), problem(str(state["psi"])).truth)


def draw_function(state: State) -> Picture:
    """Kernel regression, what learned features add to it, and the truth."""
    found, p, epsilon = series(state), problem(str(state["psi"])), float(state["epsilon"])
    linear, whole = (np.asarray(z)[:, 0] for z in (found.z_F, found.at(epsilon)))
    change = float(np.sqrt(np.mean((whole - linear) ** 2)))
    order = "second" if state["algorithm"] == "direct" else "first"
    return {
        "layers": [
            charts.line(GRID, p.truth, "truth", 5, dash="dot"),
            charts.line(GRID, linear, "kernel method, ε = 0", 2, dash="dash"),
            charts.theory(GRID, whole, f"theory, {order} order in ε", 0),
            charts.data(X, p.y, "training data"),
        ],
        "x": charts.axis("x", [GRID[0], GRID[-1]]),
        "y": charts.axis("z(x)", [-2.2, 2.2]),
        "alt": f"At ε = {epsilon:g} learned features change the prediction by {change:.2f}, "
        "root mean square.",
    }


def draw_loss(state: State) -> Picture:
    """Test loss against epsilon, and its minimum."""
    losses = scan_epsilon(series(state), problem(str(state["psi"])).truth, EPSILONS) / len(GRID)
    none, found = float(np.interp(0.0, EPSILONS, losses)), second_order(state)
    layers = [charts.rule(x=state["epsilon"], text="ε", dash="dot")]
    star = float(EPSILONS[np.argmin(losses)])
    if found is None:
        layers.append(charts.theory(EPSILONS, losses, "first order in ε", 0))
    else:
        star = found.epsilon
        parabola = none + (found.slope * EPSILONS + found.curvature / 2 * EPSILONS**2) / len(GRID)
        layers.append(charts.theory(EPSILONS, parabola, "loss to second order in ε", 0))
        layers.append(charts.line(EPSILONS, losses, "of the series for z", 2, dash="dash"))
    inside = np.isfinite(star) and EPSILONS[0] < star < EPSILONS[-1]
    if inside:
        layers.append(charts.rule(x=star, text="ε*", dash="dash", tone=0))
    here = float(np.interp(float(state["epsilon"]), EPSILONS, losses))
    return {
        "layers": layers,
        "x": charts.axis("ε", [EPSILONS[0], EPSILONS[-1]]),
        "y": charts.axis("test loss", [0, 3 * none]),
        "alt": f"Test loss {none:.4f} without feature learning, {here:.4f} at ε = {state['epsilon']:g}; "
        + (f"the best ε is {star:.2f}." if inside else "no ε in this range is best."),
        "numbers": [
            ["best ε", f"{star:.2f}" if inside else "none here", f"the teacher has ε = {TEACHER:g}"],
            ["test loss", f"{here / none:.2f}", "relative to the kernel method, ε = 0"],
        ],
    }


# ---- real models -----------------------------------------------------------------------------------


def trained(state: State, epsilon: float) -> np.ndarray:
    """The quadratic model trained to the end, nothing expanded: on the grid; NaN where it does not fit."""
    phi, psi, y, _ = problem(str(state["psi"]))
    tables = [
        FeatureTable(jnp.asarray(phi[at]), jnp.asarray(psi[at]), epsilon=jnp.asarray(float(epsilon)))
        for at in (slice(None, len(X)), slice(len(X), None))
    ]
    nothing = np.full(len(GRID), np.nan)
    with warnings.catch_warnings():
        # A model that does not fit its data is left out of the picture.
        warnings.simplefilter("ignore", UserWarning)
        try:
            end = train_weights(tables[0], y, algorithm_of(state), jnp.zeros((1, phi.shape[1])))
        except ValueError:
            return nothing
    return np.asarray(tables[1](end.weights))[:, 0] if end.residual < FITTED else nothing


def draw_trained(state: State) -> Picture:
    """The trained model at this epsilon; nothing where it cannot be trained."""
    z = trained(state, float(state["epsilon"]))
    points = charts.measured(GRID[::6], z[::6], "model, trained to the end", 1)
    return {"layers": [points]}


def pieces(state: State) -> Iterator[Picture]:
    """Train the model at many epsilons: the test loss of each."""
    truth, losses = problem(str(state["psi"])).truth, []
    for i, epsilon in enumerate(SCAN):
        losses.append(0.5 * np.mean((trained(state, float(epsilon)) - truth) ** 2))
        points = charts.measured(SCAN[: i + 1], losses, "trained models", 1)
        yield {"done": i + 1, "of": len(SCAN), "unit": "models", "figures": {"loss": [points]}}


def code(state: State) -> str:
    """The series by `deformation` or `nearly_kernel`, and the trained model."""
    p = problem(str(state["psi"]))
    text = {
        "direct": "fw.DirectOptimization()",
        "flow": "fw.GradientFlow()",
        "descent": f"fw.GradientDescent({state['step']} / float(np.linalg.eigvalsh(phi[A] @ phi[A].T)[-1]))",
    }[str(state["algorithm"])]
    seed, sign = {
        "useful": (TEACHERS_SEED, 1),
        "opposite": (TEACHERS_SEED, -1),
        "unrelated": (OTHER_SEED, 1),
    }[str(state["psi"])]
    numbers = lambda values: ", ".join(f"{v:.6g}" for v in values)
    return f"""import jax.numpy as jnp
import numpy as np
import finitewidth as fw
from finitewidth.networks import train_weights

data = np.array([{numbers(X)}])
y = np.array([{numbers(p.y)}])
x = np.concatenate([data, np.linspace(-1.0, 1.0, 97)])
A, B = slice(0, {len(X)}), slice({len(X)}, None)
epsilon = {state["epsilon"]}

# Features: waves. Meta features: random mixtures of fast waves, one for every pair of weights.
frequencies = np.array([{numbers(FREQUENCIES)}])
phases = np.array([{numbers(PHASES)}])
phi = np.cos(x[:, None] * frequencies * np.pi / 2 - phases) / (1 + frequencies)
mixing = np.random.default_rng({seed}).normal(size=(5, {len(FREQUENCIES)}, {len(FREQUENCIES)}))
fast = np.array([{numbers(FAST)}])
waves = np.cos(np.outer(x, fast) - fast)
psi = {sign * SIZE} * np.einsum("na,ajk->njk", waves, (mixing + mixing.transpose(0, 2, 1)) / 2)

# Theory: a kernel and a meta kernel decide; no model is trained.
k = phi @ phi.T
mu = lambda a, b, c: epsilon * np.einsum("bj,ajk,ck->abc", phi[b], psi[a], phi[c])
algorithm = {text}
machine = fw.nearly_kernel(k[A, A], k[B, A], mu(A, A, A), mu(B, A, A), mu(A, B, A), y, algorithm)
print("kernel method:       ", machine.linear[::16, 0])
print("first order in eps:  ", machine.prediction[::16, 0])

# The model itself, trained to the end.
model = fw.QuadraticModel(lambda rows: jnp.asarray(phi)[rows], lambda rows: jnp.asarray(psi)[rows], epsilon)
rows = jnp.arange(len(x))
end = train_weights(model.at(rows[A]), y, algorithm, jnp.zeros((1, phi.shape[1])))
print("trained model:       ", model(end.weights, rows[B])[::16, 0])
"""


def warm() -> None:
    """Compile what the default state needs."""
    draw_loss(defaults(CONTROLS))
    draw_trained(defaults(CONTROLS))


PAGE = Page(
    slug="nearly_kernel",
    order=6,
    title="A little feature learning",
    idea="A kernel method has fixed features. Let them move a little, in proportion to ε, and the prediction "
    "changes by a known amount. If they move towards the truth, some ε is best; if not, none is.",
    formula=r"""\begin{aligned}
z &= W\phi + \frac{\epsilon}{2}\, W\psi W \\
z_B &= z^F + \epsilon\, z^I + \epsilon^2 z^{II} + O(\epsilon^3) \\
\epsilon^* &= -\frac{\sum (z^F - y)\, z^I}{\sum \left[(z^I)^2 + 2 (z^F - y)\, z^{II}\right]}
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("function", "The prediction", ALL, draw_function, measured=draw_trained),
        Figure("loss", "How much is best?", ALL, draw_loss),
    ),
    experiment=Experiment("loss", "Train models at every ε", ("psi", "algorithm", "step"), pieces),
    code=code,
    claims=(
        "nk-gd-finite-eta",
        "nk-direct",
        "nk-ZB-universal",
        "kE-trained",
        "gen-derivative",
        "eps-star",
        "useful-meta-features",
    ),
    warm=warm,
)
