"""What a trained network will say, before any is trained."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.serve.laws import ACTIVATIONS, DEEPEST_NET, law_of, stack, trained
from finitewidth.serve.page import Experiment, Figure, Page, Picture
from finitewidth.serve.state import Choice, Slider, State

X = np.array([-1.6, -1.3, -0.85, 0.55, 0.9, 1.35])
GRID = np.linspace(-2.4, 2.4, 121)
TARGETS = {
    "wave": np.sin(2.2 * X),
    "step": np.where(X > 0, 0.8, -0.8),
    "peak": 1.2 * np.exp(-4 * X**2) - 0.3,
    "line": 0.6 * X,
}
PIECE, MOST = 8, 128

CONTROLS = (
    Choice("data", "Data", tuple((t, t) for t in TARGETS), "wave"),
    Choice("activation", "Activation", ACTIVATIONS, "erf"),
    Slider("depth", "Depth (affine layers)", 2, DEEPEST_NET, 1, 4, whole=True),
    Slider("C_W", "Weight variance C_W", 0.4, 4.0, 0.05, 2.5),
    Slider("C_b", "Bias variance C_b", 0.0, 1.0, 0.02, 0.3),
    Slider("steps", "Steps of gradient descent", 0, 12, 1, 512, log2=True),
    Slider(
        "width",
        "Width of the real networks",
        4,
        9,
        1,
        64,
        log2=True,
        hint="the theory is that of infinite width",
    ),
)
THEORY = ("data", "activation", "depth", "C_W", "C_b", "steps")


def _inputs(x: np.ndarray) -> np.ndarray:
    return np.asarray(x)[:, None]


@functools.lru_cache(maxsize=64)
def kernels_of(activation: str, depth: int, C_W: float, C_b: float):
    points = jnp.asarray(_inputs(np.concatenate([X, GRID])))
    return stack(law_of(activation), jnp.asarray(C_W), jnp.asarray(C_b), jnp.asarray(depth), points)


def law(state: State):
    K, T = kernels_of(state["activation"], state["depth"], state["C_W"], state["C_b"])
    mean, std, eta = trained(K, T, jnp.asarray(TARGETS[state["data"]]), float(state["steps"]))
    return np.asarray(mean), np.asarray(std), float(eta)


def draw(state: State) -> Picture:
    mean, std, eta = law(state)
    y = TARGETS[state["data"]]
    limit = 2.4
    return {
        "layers": [
            {
                "role": "band",
                "x": GRID,
                "lo": mean - 2 * std,
                "hi": mean + 2 * std,
                "name": "theory, ±2σ",
                "tone": 0,
            },
            {"role": "theory", "x": GRID, "y": mean, "name": "theory, mean", "tone": 0},
            {"role": "data", "x": X, "y": y, "name": "training data"},
        ],
        "x": {"label": "x", "range": [-2.4, 2.4]},
        "y": {"label": "f(x)", "range": [-limit, limit]},
        "alt": f"Trained networks at infinite width: mean from {mean.min():.2f} to {mean.max():.2f}, "
        f"standard deviation at most {std.max():.2f}, at the data {np.interp(X, GRID, std).max():.3f}.",
        "numbers": [
            ["largest σ", f"{std.max():.2f}", "over the interval"],
            ["σ at the data", f"{np.interp(X, GRID, std).max():.3f}", "what training has not yet removed"],
            ["step η", f"{eta:.3g}", "half the largest stable one"],
        ],
    }


def pieces(state: State) -> Iterator[Picture]:
    """Trained networks, eight at a time, beside the law that they should follow."""
    mean, std, eta = law(state)
    net = fw.MLP(
        hidden=(state["width"],) * (state["depth"] - 1),
        activation=state["activation"],
        C_b=state["C_b"],
        C_W=state["C_W"],
    )
    y = TARGETS[state["data"]][:, None]
    seen: list[np.ndarray] = []
    for i in range(MOST // PIECE):
        key = jax.random.fold_in(jax.random.key(0), i)
        run = fw.train_ensemble(
            net, key, PIECE, _inputs(X), y, _inputs(GRID), steps=max(1, state["steps"]), learning_rate=eta
        )
        new = run.outputs[:, :, 0]
        seen.append(new)
        every = np.concatenate(seen)
        m, s = every.mean(0), every.std(0, ddof=1)
        shift = np.sqrt(np.mean((m - mean) ** 2) / np.mean(std**2))
        sparse = slice(4, None, 8)
        yield {
            "done": len(every),
            "of": MOST,
            "members": {"x": GRID, "ys": new},
            "layers": [
                {
                    "role": "measured",
                    "x": GRID[sparse],
                    "y": m[sparse],
                    "err": 2 * s[sparse] / np.sqrt(len(every)),
                    "name": "mean of the networks, ±2 s.e.",
                    "tone": 1,
                },
                {
                    "role": "outline",
                    "x": GRID,
                    "lo": m - 2 * s,
                    "hi": m + 2 * s,
                    "name": "networks, ±2σ",
                    "tone": 1,
                },
            ],
            "numbers": [
                ["networks", f"{len(every)}", f"of width {state['width']}"],
                ["σ ratio", f"{np.sqrt(np.mean(s**2) / np.mean(std**2)):.2f}", "networks / theory"],
                ["shift of the mean", f"{shift:.2f} σ", "networks − theory, root mean square"],
            ],
        }


def code(state: State) -> str:
    x = ", ".join(f"{v:g}" for v in X)
    y = ", ".join(f"{v:.4g}" for v in TARGETS[state["data"]])
    return f"""import jax
import numpy as np
import finitewidth as fw

x = np.array([{x}])[:, None]
y = np.array([{y}])
grid = np.linspace(-2.4, 2.4, 121)[:, None]

net = fw.MLP(hidden=({state["width"]},) * {state["depth"] - 1}, activation={state["activation"]!r}, C_b={state["C_b"]}, C_W={state["C_W"]})
law = fw.predict(net, x, y, grid, fw.GradientDescent(steps={state["steps"]}))
print(law.mean[:, 0], law.std)                    # the band

check = fw.verify(law, networks=64)               # trains 64 of them
print(check)
"""


def warm() -> None:
    draw({c.name: c.default for c in CONTROLS})


PAGE = Page(
    slug="bands",
    title="What a trained network will say",
    idea="Draw a network at random and train it. Its function is random too. At infinite width its law is known "
    "before any network is trained: the band. Train real ones and see whether they fall into it.",
    formula=r"""\begin{aligned}
z(t) &\sim \mathcal{N}\left(M_t\, y,\ \Sigma_t\right) \\
M_t &= \Theta_{BA}\, \Theta_{AA}^{-1} \left(1 - (1 - \eta\, \Theta_{AA})^t\right) \\
\Sigma_t &= K_{BB} - M_t K_{AB} - K_{BA} M_t^\mathsf{T} + M_t K_{AA} M_t^\mathsf{T}
\end{aligned}""",
    controls=CONTROLS,
    figures=(Figure("law", "p(f*) on a line", THEORY, draw, tall=True),),
    experiment=Experiment("law", "Train networks", THEORY + ("width",), pieces),
    code=code,
    claims=(
        "nngp-covariance",
        "lin-test-solution-any-t",
        "ntk-width-scaling",
        "pd-kernel-linear-convergence",
    ),
    warm=warm,
)
