"""What is learnt first: the modes of the tangent kernel, and the largest step that they allow."""

import functools
from collections.abc import Iterator

import jax
import numpy as np

import finitewidth as fw
from finitewidth.course._server import charts
from finitewidth.course._server.activations import ACTIVATIONS
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults
from finitewidth.networks.training.ensembles import log_spaced
from finitewidth.networks.training.training import DivergenceError

X = np.array([-2.0, -1.45, -0.9, -0.4, 0.15, 0.75, 1.25, 2.0])
GRID = np.linspace(-2.4, 2.4, 121)
POINTS = np.concatenate([X, GRID])[:, None]
TARGETS = {
    "wave": np.sin(2.2 * X) + 0.3 * np.cos(1.4 * X),
    "step": np.where(X > 0, 0.8, -0.8),
    "peak": 1.4 * np.exp(-2 * X**2) - 0.3,
    "line": 0.5 * X + 0.2,
}
C_W, C_B, DEPTH = 2.0, 0.3, 3
SHOWN, LEAST_SHARE, MOST, LONGEST, LARGEST_LOG = 5, 0.02, 8, 12, 60.0
TICKS_T = [[v, f"{v:,}"] for v in (1, 10, 100, 1000)]
TIMES = np.unique(np.round(2 ** np.linspace(0, LONGEST, 97)))

CONTROLS = (
    Choice("data", "Data", tuple((name, name) for name in TARGETS), "wave"),
    Choice("activation", "Activation", ACTIVATIONS, "erf"),
    Slider(
        "step",
        "Step size η λ_max",
        0.1,
        2.2,
        0.05,
        1.0,
        hint="above 2 the fastest mode grows instead of dying",
    ),
    Slider("steps", "Steps of gradient descent t", 0, LONGEST, 1, 64, log2=True),
    Slider(
        "width", "Width of the real networks", 6, 9, 1, 256, log2=True, hint="the theory has infinite width"
    ),
)
THEORY = ("data", "activation", "step", "steps")

# ---- theory ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def spectrum(activation: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues of the tangent kernel, largest first, eigenvectors, and their reach to the grid."""
    net = fw.MLP((1,) * (DEPTH - 1), activation, C_b=C_B, C_W=C_W)
    ntk = np.asarray(fw.kernels(net, POINTS, terms=256).ntk)
    n = len(X)
    eigenvalues, V = np.linalg.eigh(ntk[:n, :n])
    return eigenvalues[::-1], V[:, ::-1], ntk[n:, :n] @ V[:, ::-1]


def left(state: State, times: np.ndarray) -> np.ndarray:
    """Share of every mode's error that is left after so many steps: (times, modes), with its sign."""
    eigenvalues, _, _ = spectrum(str(state["activation"]))
    factor = 1 - float(state["step"]) * eigenvalues / eigenvalues[0]
    t = np.asarray(times, float)[:, None]
    # A mode that grows leaves the picture long before it leaves the numbers of the computer.
    size = np.exp(np.minimum(t * np.log(np.maximum(np.abs(factor), 1e-300)), LARGEST_LOG))
    return np.where(factor < 0, (-1.0) ** t, 1.0) * np.where(factor == 0, 0.0, size)


def function(state: State) -> np.ndarray:
    """What has been learnt on the grid: networks of infinite width, their random start taken away."""
    eigenvalues, V, reach = spectrum(str(state["activation"]))
    learnt = 1 - left(state, np.array([state["steps"]]))[0]
    # A linear network has two modes; the others are never learnt, and their eigenvalues are rounding.
    gain = np.divide(learnt, eigenvalues, out=np.zeros_like(learnt), where=_learnable(eigenvalues))
    return reach @ (gain * (V.T @ TARGETS[str(state["data"])]))


def _learnable(eigenvalues: np.ndarray) -> np.ndarray:
    """Which modes are more than rounding."""
    return eigenvalues > 1e-12 * eigenvalues[0]


def draw_modes(state: State) -> Picture:
    """The share of each mode that is still to be learnt, against the number of steps."""
    shares = np.abs(left(state, TIMES))
    eigenvalues, _, _ = spectrum(str(state["activation"]))
    now, step = np.abs(left(state, np.array([state["steps"]])))[0], float(state["step"])
    unstable = step > 2
    layers = [
        charts.theory(
            TIMES,
            np.where(shares[:, i] < 1e6, shares[:, i], np.nan),
            f"mode {i + 1}: λ = {eigenvalues[i]:.2g}",
            i,
        )
        for i in range(SHOWN)
    ]
    layers.append(charts.rule(x=state["steps"], text="t", dash="dot"))
    slowest = eigenvalues[0] / (step * eigenvalues[_learnable(eigenvalues)][-1])
    done = int(np.sum(now < 0.1))
    return {
        "layers": layers,
        "x": charts.axis("steps t", [1, 2**LONGEST], log=True, ticks=TICKS_T),
        "y": charts.axis(
            "share of the error left",
            [1e-3, 100 if unstable else 1.6],
            log=True,
            ticks=(0.001, 0.01, 0.1, 1, 10, 100),
        ),
        "alt": f"After {state['steps']} steps the first {SHOWN} modes have the shares "
        f"{', '.join(f'{s:.2g}' for s in now[:SHOWN])} of their error left.",
        "numbers": [
            ["modes learnt", f"{done} of {len(X)}", "less than a tenth of their error is left"],
            ["largest stable step", f"{2 / eigenvalues[0]:.3g}", "η = 2 / λ_max"],
            ["slowest mode", f"{slowest:,.0f} steps", "until 1/e of its error is left"],
            *([["this step", "too large", "η λ_max > 2: the first mode grows"]] if unstable else []),
        ],
    }


def draw_function(state: State) -> Picture:
    """What has been learnt after t steps."""
    f, y = function(state), TARGETS[str(state["data"])]
    miss = np.sqrt(np.mean((np.interp(X, GRID, f) - y) ** 2))
    return {
        "layers": [
            charts.theory(GRID, np.clip(f, -1e3, 1e3), "theory, infinite width", 0),
            charts.data(X, y, "training data"),
        ],
        "x": charts.axis("x", [GRID[0], GRID[-1]]),
        "y": charts.axis("learnt so far", [-1.8, 1.8]),
        "alt": f"After {state['steps']} steps the function lies between {f.min():.2f} and {f.max():.2f} and "
        f"misses the data by {miss:.2f}, root mean square.",
    }


# ---- real networks ---------------------------------------------------------------------------------


def networks(state: State, eta: float, V: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    """Networks one by one: shares left (times, modes), and what they have learnt on the grid.

    A network is trained towards the data plus what it said at the start, so that its start does not matter.
    None comes while a network is still in training.
    """
    net = fw.MLP((int(state["width"]),) * (DEPTH - 1), str(state["activation"]), C_b=C_B, C_W=C_W)
    y, steps, n = TARGETS[str(state["data"])], int(state["steps"]), len(X)
    train = functools.partial(
        fw.train_in_pieces, net, x=X[:, None], x_test=POINTS, learning_rate=eta, record=["test_outputs"]
    )
    for i in range(MOST):
        key = jax.random.fold_in(jax.random.key(0), i)
        first = next(train(key, 1, y=y[:, None], steps=1))
        start = first.recorded["test_outputs"][0, 0, :, 0]
        goal = (y + start[:n])[:, None]
        for piece in train(key, 1, y=goal, steps=steps, record_at=log_spaced(steps)):
            if not piece.finished:
                yield None
                continue
            moved = piece.recorded["test_outputs"][0, :, :, 0] - start
            yield (y - moved[:, :n]) @ V / (y @ V), moved[-1, n:]


def pieces(state: State) -> Iterator[Picture]:
    """Real networks: their error along the modes of the kernel, and their functions."""
    eigenvalues, V, _ = spectrum(str(state["activation"]))
    eta = float(state["step"]) / float(eigenvalues[0])
    y = TARGETS[str(state["data"])]
    shown = [i for i in range(SHOWN) if (y @ V[:, i]) ** 2 > LEAST_SHARE * np.sum(y**2)]
    times = log_spaced(int(state["steps"]))
    shares, functions, latest = [], [], {}
    try:
        for found in networks(state, eta, V):
            members = {}
            if found is not None:
                shares.append(found[0][1:])
                functions.append(found[1])
                members = {"members": {"x": GRID, "ys": functions[-1][None]}}
                latest = _measured(times, np.array(shares), np.array(functions), shown)
            yield {"done": len(shares), "of": MOST, **members, **latest}
    except DivergenceError:
        said = ["networks", "ran away", f"after {len(shares)} others; as the theory says above η λ_max = 2"]
        yield {"done": len(shares), "of": MOST, **latest, "numbers": [said]}


def _measured(times: np.ndarray, shares: np.ndarray, functions: np.ndarray, shown: list[int]) -> Picture:
    """Means over networks with two standard errors."""
    count = max(len(shares) - 1, 1)
    sizes = np.abs(shares.mean(0))
    error = 2 * shares.std(0) / np.sqrt(count)
    layers = [
        charts.measured(
            times,
            np.where(sizes[:, i] > error[:, i], sizes[:, i], np.nan),
            "networks, ±2 s.e." if i == shown[0] else "",
            i,
            err=np.minimum(error[:, i], 0.9 * sizes[:, i]),
        )
        for i in shown
    ]
    mean, sparse = functions.mean(0), slice(4, None, 8)
    points = charts.measured(
        GRID[sparse],
        mean[sparse],
        "mean of the networks, ±2 s.e.",
        1,
        err=2 * functions.std(0)[sparse] / np.sqrt(count),
    )
    return {"figures": {"modes": layers, "function": [points]}}


def code(state: State) -> str:
    """The modes by `fw.kernels`, the function by `fw.predict_from_kernels`, and one real network."""
    x = ", ".join(f"{v:g}" for v in X)
    y = ", ".join(f"{v:.4g}" for v in TARGETS[str(state["data"])])
    return f"""import jax
import jax.numpy as jnp
import numpy as np
import finitewidth as fw

x = jnp.array([{x}])[:, None]
y = np.array([{y}])
net = fw.MLP(({state["width"]},) * {DEPTH - 1}, {state["activation"]!r}, C_b={C_B}, C_W={C_W})

# Theory: every mode of the kernel loses its error by itself.
eigenvalues, modes = np.linalg.eigh(fw.kernels(net, x).ntk)
eta, steps = {state["step"]} / eigenvalues[-1], {state["steps"]}
print("share left, slowest first:", (1 - eta * eigenvalues) ** steps)
print("largest stable step:", 2 / eigenvalues[-1])

# One real network, trained towards the data plus what it said at the start.
params = net.init(jax.random.key(0), 1)
start = np.asarray(net.apply(params, x))
run = fw.train(net, params, x, y[:, None] + start, steps=steps, learning_rate=eta)
learnt = np.asarray(net.apply(run.params, x)) - start
print("network, share left:      ", modes.T @ (y - learnt[:, 0]) / (modes.T @ y))
"""


def warm() -> None:
    """Compile what the default state needs."""
    draw_modes(defaults(CONTROLS))


PAGE = Page(
    slug="modes",
    order=3,
    title="What is learnt first",
    idea="Gradient descent learns the directions of the tangent kernel one by one, each at its own speed: "
    "large eigenvalues first, small ones last. The largest one also decides how large a step may be.",
    formula=r"""\begin{aligned}
\Theta\, v_i &= \lambda_i v_i \\
v_i \cdot (y - z(t)) &= (1 - \eta \lambda_i)^t\ v_i \cdot (y - z(0)) \\
\eta &< 2 / \lambda_{\max}
\end{aligned}""",
    controls=CONTROLS,
    figures=(
        Figure("modes", "Mode by mode", THEORY, draw_modes),
        Figure("function", "What has been learnt", THEORY, draw_function),
    ),
    experiment=Experiment("function", "Train networks", (*THEORY, "width"), pieces),
    code=code,
    claims=(
        "lin-residual-propagator",
        "lin-stability-edge",
        "lin-eta-independence",
        "gd-linear-rate",
        "pd-kernel-linear-convergence",
    ),
    warm=warm,
)
