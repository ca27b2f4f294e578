"""What a trained network will say, before any is trained."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.course._server import charts
from finitewidth.course._server.activations import SHORT_SERIES
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Choice, Slider, State, defaults

X = np.array([-1.6, -1.3, -0.85, 0.55, 0.9, 1.35])
GRID = np.linspace(-2.4, 2.4, 121)
TARGETS = {
    "wave": np.sin(2.2 * X),
    "step": np.where(X > 0, 0.8, -0.8),
    "peak": 1.2 * np.exp(-4 * X**2) - 0.3,
    "line": 0.6 * X,
}
DEEPEST = 10
RANGE_W, RANGE_B = (0.4, 4.0), (0.0, 1.0)
PIECE, MOST = 8, 128

CONTROLS = (
    Choice("data", "Data", tuple((name, name) for name in TARGETS), "wave"),
    Choice("activation", "Activation", SHORT_SERIES, "erf"),
    Slider("depth", "Depth (affine layers)", 2, DEEPEST, 1, 4, whole=True),
    Slider("C_W", "Weight variance C_W", *RANGE_W, 0.05, 2.5),
    Slider("C_b", "Bias variance C_b", *RANGE_B, 0.02, 0.3),
    Slider("steps", "Steps of gradient descent", 0, 12, 1, 512, log2=True),
    Slider(
        "width", "Width of the real networks", 4, 9, 1, 64, log2=True, hint="the theory has infinite width"
    ),
)
THEORY = ("data", "activation", "depth", "C_W", "C_b", "steps")

# ---- theory ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def kernels(activation: str) -> fw.AdjustableKernels:
    """NNGP kernel and NTK of the data and the grid, as functions of the sliders."""
    x = np.concatenate([X, GRID])[:, None]
    return fw.adjustable_kernels(activation, x, deepest=DEEPEST, C_W=RANGE_W, C_b=RANGE_B)


@functools.lru_cache(maxsize=64)
def kernels_at(activation: str, depth: int, C_W: float, C_b: float) -> tuple[jax.Array, jax.Array]:
    """The two kernels (points, points) of one network, the data first."""
    nngp, ntk = kernels(activation).at(depth, C_W, C_b)
    return nngp, ntk


@jax.jit
def trained(K: jax.Array, T: jax.Array, y: jax.Array, steps: jax.Array) -> tuple[jax.Array, ...]:
    """Mean, standard deviation and step of gradient descent with half the largest stable step."""
    n = len(y)
    eigenvalues, V = jnp.linalg.eigh(T[:n, :n])
    eta = 1 / eigenvalues[-1]
    # 1 - eta lambda is 0 for the largest eigenvalue, and rounding may leave others a little below zero.
    lost = jnp.clip(eta * eigenvalues, 1e-15, 1 - 1e-15)
    learnt = eta * -jnp.expm1(steps * jnp.log1p(-lost)) / lost
    M = (T[n:, :n] @ V) * learnt @ V.T
    change = jnp.einsum("ij,jk,ik->i", M, K[:n, :n], M) - 2 * jnp.sum(M * K[n:, :n], axis=1)
    return M @ y, jnp.sqrt(jnp.maximum(jnp.diag(K)[n:] + change, 0)), eta


def law(state: State) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and standard deviation on the grid, and the step."""
    K, T = kernels_at(state["activation"], state["depth"], state["C_W"], state["C_b"])
    mean, std, eta = trained(K, T, jnp.asarray(TARGETS[state["data"]]), jnp.asarray(float(state["steps"])))
    return np.asarray(mean), np.asarray(std), float(eta)


def draw(state: State) -> Picture:
    """The band of trained networks at infinite width."""
    mean, std, eta = law(state)
    far = max(np.abs(mean).max() + 2 * std.max(), 1.0)
    # Twelve heights a decade, so that the axis does not follow every move.
    top = 10 ** (np.ceil(12 * np.log10(1.05 * far)) / 12)
    at_data = np.interp(X, GRID, std).max()
    return {
        "layers": [
            charts.band(GRID, mean - 2 * std, mean + 2 * std, "theory, ±2σ", 0),
            charts.theory(GRID, mean, "theory, mean", 0),
            charts.data(X, TARGETS[state["data"]], "training data"),
        ],
        "x": charts.axis("x", [GRID[0], GRID[-1]]),
        "y": charts.axis("f(x)", [-top, top]),
        "alt": f"Trained networks at infinite width: mean from {mean.min():.2f} to {mean.max():.2f}, "
        f"standard deviation at most {std.max():.2f}, at the data {at_data:.3f}.",
        "numbers": [
            ["largest σ", f"{std.max():.2f}", "over the interval"],
            ["σ at the data", f"{at_data:.3f}", "what training has not yet removed"],
            ["step η", f"{eta:.3g}", "half the largest stable one"],
        ],
    }


# ---- real networks ---------------------------------------------------------------------------------


def networks(state: State, eta: float) -> Iterator[np.ndarray | None]:
    """Real networks trained by the same gradient descent: outputs (networks, grid), a few at a time.

    None where some are still in training: a long one can be stopped there.
    """
    net = fw.MLP(
        hidden=(state["width"],) * (state["depth"] - 1),
        activation=state["activation"],
        C_b=state["C_b"],
        C_W=state["C_W"],
    )
    y = TARGETS[state["data"]][:, None]
    training = fw.train_in_pieces(
        net, jax.random.key(0), MOST, X[:, None], y, GRID[:, None],
        steps=state["steps"], learning_rate=eta, together=PIECE,
    )  # fmt: skip
    for piece in training:
        yield np.asarray(piece.outputs)[:, :, 0] if piece.finished else None


def pieces(state: State) -> Iterator[Picture]:
    """Trained networks beside the law that they should follow."""
    mean, std, eta = law(state)
    seen: list[np.ndarray] = []
    shown: Picture = {"done": 0, "of": MOST}
    for new in networks(state, eta):
        if new is None:
            yield shown
            continue
        seen.append(new)
        shown = _beside(np.concatenate(seen), mean, std, state["width"])
        yield {**shown, "members": {"x": GRID, "ys": new}}


def _beside(every: np.ndarray, mean: np.ndarray, std: np.ndarray, width: int) -> Picture:
    """Mean and spread of the networks (networks, grid), and how far they are from the law."""
    m, s = every.mean(0), every.std(0, ddof=1)
    shift = np.sqrt(np.mean((m - mean) ** 2) / np.mean(std**2))
    sparse = slice(4, None, 8)
    return {
        "done": len(every),
        "of": MOST,
        "layers": [
            charts.measured(
                GRID[sparse],
                m[sparse],
                "mean of the networks, ±2 s.e.",
                1,
                err=2 * s[sparse] / np.sqrt(len(every)),
            ),
            charts.outline(GRID, m - 2 * s, m + 2 * s, "networks, ±2σ", 1),
        ],
        "numbers": [
            ["networks", f"{len(every)}", f"of width {width}"],
            ["σ ratio", f"{np.sqrt(np.mean(s**2) / np.mean(std**2)):.2f}", "networks / theory"],
            ["shift of the mean", f"{shift:.2f} σ", "networks − theory, root mean square"],
        ],
    }


def code(state: State) -> str:
    """The same band by `fw.predict`, and its check on real networks."""
    x = ", ".join(f"{v:g}" for v in X)
    y = ", ".join(f"{v:.4g}" for v in TARGETS[state["data"]])
    hidden = f"({state['width']},) * {int(state['depth']) - 1}"
    return f"""import numpy as np
import finitewidth as fw

x = np.array([{x}])[:, None]
y = np.array([{y}])
grid = np.linspace(-2.4, 2.4, 121)[:, None]

net = fw.MLP(hidden={hidden}, activation={state["activation"]!r},
             C_b={state["C_b"]}, C_W={state["C_W"]})
law = fw.predict(net, x, y, grid, fw.GradientDescent(steps={state["steps"]}))
print(law.mean, law.std)  # the band

check = fw.verify(law, networks=16)  # trains 16 of them
print(check)
"""


def warm() -> None:
    """Compile what the default state needs."""
    draw(defaults(CONTROLS))


PAGE = Page(
    slug="bands",
    order=4,
    title="What a trained network will say",
    idea="Draw a network at random and train it: its function is random too. At infinite width its law is "
    "known before any network is trained: the band. Train real ones and see whether they fall into it.",
    formula=r"""\begin{aligned}
z(t) &\sim \mathcal{N}\left(M_t\, y,\ \Sigma_t\right) \\
M_t &= \Theta_{BA}\, \Theta_{AA}^{-1} \left(1 - (1 - \eta\, \Theta_{AA})^t\right) \\
\Sigma_t &= K_{BB} - M_t K_{AB} - K_{BA} M_t^\mathsf{T} + M_t K_{AA} M_t^\mathsf{T}
\end{aligned}""",
    controls=CONTROLS,
    figures=(Figure("law", "p(f*) on a line", THEORY, draw, tall=True),),
    experiment=Experiment("law", "Train networks", (*THEORY, "width"), pieces),
    code=code,
    claims=(
        "nngp-covariance",
        "lin-test-solution-any-t",
        "ntk-width-scaling",
        "lazy-width",
        "pd-kernel-linear-convergence",
    ),
    warm=warm,
    upload="Your own data",
)
