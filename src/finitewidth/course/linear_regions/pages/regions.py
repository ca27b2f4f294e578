"""The linear pieces of a ReLU network, each in its colour, and how many to expect."""

import functools
import itertools
from collections.abc import Iterator

import jax
import numpy as np

import finitewidth as fw
from finitewidth.architecture.dense import Affine
from finitewidth.course._server import charts
from finitewidth.course._server.page import Experiment, Figure, Page, Picture
from finitewidth.course._server.state import Slider, State, defaults
from finitewidth.course.linear_regions.theory.linear_regions import (
    expected_breakpoints,
    most_regions,
    reachable_regions,
)
from finitewidth.measure import regions

SIDE, C_W = 3.0, 2.0
# Layers over which pieces are counted, networks of the experiment, and how many make a piece of it.
DEEPEST, NETWORKS, AT_ONCE = 6, 96, 8
DRAWS = 4096
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

CONTROLS = (
    Slider("width", "Width", 4, 24, 4, 16, whole=True),
    Slider("depth", "Hidden layers", 1, 4, 1, 2, whole=True),
    Slider("C_b", "Bias variance C_b", 0.02, 1.0, 0.02, 0.4),
    Slider("height", "Height of the cut", -2.5, 2.5, 0.1, 0.5),
    Slider("seed", "Network number", 0, 99, 1, 4, whole=True, hint="each number is another random network"),
)


def network(width: int, depth: int, C_b: float) -> fw.MLP:
    """Two inputs, so many hidden layers, one output."""
    return fw.MLP((width,) * depth, "relu", C_b=C_b, C_W=C_W)


def cut(height: float) -> tuple[np.ndarray, np.ndarray]:
    """The ends of a line across the square."""
    return np.array([-SIDE, height]), np.array([SIDE, height])


@functools.lru_cache(maxsize=256)
def expected(width: int, C_b: float, height: float) -> np.ndarray:
    """The mean number of kinks on the cut, with one to six hidden layers."""
    law = expected_breakpoints(network(width, DEEPEST, C_b), *cut(height), key=jax.random.key(0), draws=DRAWS)
    return np.cumsum(law.value)


def draw_plane(state: State) -> Picture:
    """The frame of the picture and the cut; what fills it is a network."""
    width, depth, _, height, _ = _read(state)
    return {
        "layers": [charts.rule(y=height, text="", dash="solid")],
        "x": charts.axis("first input", [-SIDE, SIDE]),
        "y": charts.axis("second input", [-SIDE, SIDE]),
        "equal": True,
        "alt": f"The inputs of a network with {depth} hidden layers of {width}, in its linear pieces.",
        "numbers": [
            [
                "most pieces",
                _count(most_regions((width,) * depth, 2)),
                "that no network of this shape can exceed",
            ],
        ],
    }


def _count(number: int) -> str:
    if number < 1e7:
        return f"{number:,}"
    digits, power = f"{number:.1e}".split("e+")
    return f"{digits} × 10" + str(int(power)).translate(RAISED)


def draw_cut(state: State) -> Picture:
    """The frame of the output along the cut, and how many kinks it should have."""
    width, depth, C_b, height, _ = _read(state)
    kinks = expected(width, C_b, height)[depth - 1]
    return {
        "layers": [],
        "x": charts.axis("first input, along the cut", [-SIDE, SIDE]),
        "y": charts.axis("output", zero=False),
        "alt": f"The output along the cut: {kinks:.1f} kinks are expected on average.",
        "numbers": [["expected kinks", f"{kinks:.1f}", f"on the cut, for {depth * width} neurons"]],
    }


def draw_depth(state: State) -> Picture:
    """Kinks on the cut against depth: what random networks have, and what some network could have."""
    width, depth = int(state["width"]), int(state["depth"])
    C_b, height = float(state["C_b"]), float(state["height"])
    layers = np.arange(1, DEEPEST + 1)
    mean = expected(width, C_b, height)
    possible = np.array([float(reachable_regions((width,) * l, 1)) - 1 for l in layers.tolist()])
    return {
        "layers": [
            charts.line(layers, possible, "some network has", 5, dash="dash"),
            charts.theory(layers, mean, "random networks, on average", 0),
            charts.rule(x=depth, text="", dash="dot"),
        ],
        "x": charts.axis("hidden layers", [0.8, DEEPEST + 0.2]),
        "y": charts.axis("kinks on the cut", [min(2.0, mean[0] / 2), 2 * possible[-1]], log=True),
        "alt": f"Kinks on the cut: from {mean[0]:.1f} with one hidden layer to {mean[-1]:.1f} with {DEEPEST} "
        f"on average; some network of that shape has {possible[-1]:.2g}.",
    }


def random_weights(width: int, depth: int, C_b: float, seed: int) -> tuple[Affine, ...]:
    """A random network: weights of variance C_W / n, biases of variance C_b."""
    rng = np.random.default_rng(seed)
    sizes = (2, *(width,) * depth, 1)
    return tuple(
        Affine(np.sqrt(C_W / n) * rng.normal(size=(m, n)), np.sqrt(C_b) * rng.normal(size=m))
        for n, m in itertools.pairwise(sizes)
    )


@functools.lru_cache(maxsize=32)
def cells(width: int, depth: int, C_b: float, seed: int) -> regions.PlaneRegions:
    """All linear pieces of one network in the square."""
    plane = regions.as_plane([0.0, 0.0], np.eye(2), polygon=SIDE)
    return regions.plane_regions(
        network(width, depth, C_b), plane, params=random_weights(width, depth, C_b, seed)
    )


def measured_plane(state: State) -> Picture:
    """The cells of a real network."""
    width, depth, C_b, _, seed = _read(state)
    found = cells(width, depth, C_b, seed)
    corners = np.where(
        (np.arange(found.corners.shape[1]) < found.counts[:, None])[:, :, None], found.corners, np.nan
    )
    return {
        # Neighbours differ in one gate, which adds 1 to 11: they never have the same colour.
        "layers": [
            charts.polygons(
                corners[:, :, 0].round(3),
                corners[:, :, 1].round(3),
                found.patterns @ (1 + 5 * np.arange(depth * width) % 11) % 12,
                "one colour for each linear piece",
            )
        ],
        "numbers": [["pieces", f"{found.number:,}", "of this network, in this square"]],
    }


def measured_cut(state: State) -> Picture:
    """The output of the same network along the cut, with its kinks."""
    width, depth, C_b, height, seed = _read(state)
    start, end = cut(height)
    found = regions.line_regions(
        network(width, depth, C_b), start, end, params=random_weights(width, depth, C_b, seed)
    )
    t = np.concatenate([[0.0], found.breakpoints, [1.0]])
    pieces = np.append(np.arange(found.number), found.number - 1)
    x, y = 2 * SIDE * t - SIDE, found.slopes[pieces, 0] * t + found.offsets[pieces, 0]
    kinks = len(found.breakpoints)
    return {
        "layers": [
            charts.line(x, y, "a real network", 1),
            charts.measured(x[1:-1], y[1:-1], f"its {kinks} kinks", 1),
        ],
        "numbers": [["kinks", f"{kinks}", "of this network on the cut"]],
    }


def pieces(state: State) -> Iterator[Picture]:
    """Random networks of six hidden layers, and their kinks on the cut layer by layer."""
    width, C_b, height = int(state["width"]), float(state["C_b"]), float(state["height"])
    start, end = cut(height)
    net, counts = network(width, DEEPEST, C_b), []
    for first in range(0, NETWORKS, AT_ONCE):
        for seed in range(first, first + AT_ONCE):
            params = random_weights(width, DEEPEST, C_b, 1000 + seed)
            patterns = regions.line_regions(net, start, end, params=params).patterns
            # A layer has its kinks whatever follows it, so one deep network holds all shallower ones.
            flips = np.sum(patterns[1:] != patterns[:-1], axis=0)
            counts.append(flips.reshape(DEEPEST, width).sum(axis=1).cumsum())
        seen = np.array(counts)
        yield {
            "done": len(seen),
            "of": NETWORKS,
            "layers": [
                charts.measured(
                    np.arange(1, DEEPEST + 1),
                    seen.mean(axis=0),
                    "mean of real networks, ± 2 s.e.",
                    1,
                    err=2 * seen.std(axis=0, ddof=1) / np.sqrt(len(seen)),
                )
            ],
            "numbers": [
                ["six layers", f"{seen[:, -1].mean():.1f} kinks", f"mean of {len(seen)} networks on the cut"]
            ],
        }


def code(state: State) -> str:
    """The same in Python."""
    width, depth, C_b, height, seed = _read(state)
    return f"""import jax
import numpy as np
import finitewidth as fw
from finitewidth.architecture import Affine
from finitewidth.measure import regions
from finitewidth.course.linear_regions.theory import expected_breakpoints, most_regions

net = fw.MLP(({width},) * {depth}, "relu", C_b={C_b:g}, C_W={C_W:g})
rng, sizes = np.random.default_rng({seed}), (2, *({width},) * {depth}, 1)
params = tuple(
    Affine(np.sqrt({C_W:g} / n) * rng.normal(size=(m, n)), np.sqrt({C_b:g}) * rng.normal(size=m))
    for n, m in zip(sizes[:-1], sizes[1:])
)
plane = regions.as_plane([0.0, 0.0], np.eye(2), polygon={SIDE:g})
found = regions.plane_regions(net, plane, params=params)
print(found.number, "pieces; no network of this shape has more than", most_regions(net.hidden, 2))

start, end = [{-SIDE:g}, {height:g}], [{SIDE:g}, {height:g}]
line = regions.line_regions(net, start, end, params=params)
mean = expected_breakpoints(net, start, end, key=jax.random.key(0), draws={DRAWS})
print(len(line.breakpoints), "kinks on the cut,", mean.value.sum(), "on average over random networks")
"""


def _read(state: State) -> tuple[int, int, float, float, int]:
    return (
        int(state["width"]),
        int(state["depth"]),
        float(state["C_b"]),
        float(state["height"]),
        int(state["seed"]),
    )


def warm() -> None:
    """Compile the mean of every width."""
    state = defaults(CONTROLS)
    for figure in PAGE.figures:
        figure.picture(state)
    for width in range(4, 25, 4):
        expected(width, float(state["C_b"]), float(state["height"]))


PAGE = Page(
    slug="regions",
    order=12,
    title="How many linear pieces",
    idea="A ReLU network is linear between the places where a neuron switches on or off. Depth could fold "
    "the plane into exponentially many pieces. A random network does not: on any line it has about one kink "
    "for each neuron.",
    formula=r"""\mathbb{E}[\text{kinks on a line}] = \sum_\ell n_\ell\,
\mathbb{E}\left[\frac{\arccos \rho_\ell}{\pi}\right] \le \sum_\ell n_\ell""",
    controls=CONTROLS,
    figures=(
        Figure(
            "plane",
            "The pieces of one network",
            ("width", "depth", "C_b", "height", "seed"),
            draw_plane,
            tall=True,
            measured=measured_plane,
        ),
        Figure(
            "cut",
            "Its output along the cut",
            ("width", "depth", "C_b", "height", "seed"),
            draw_cut,
            measured=measured_cut,
        ),
        Figure("depth", "More layers, more kinks?", ("width", "depth", "C_b", "height"), draw_depth),
    ),
    experiment=Experiment("depth", "Count the kinks", ("width", "C_b", "height"), pieces),
    code=code,
    claims=(
        "regions-one-hidden-1d",
        "regions-average-1d-shallow",
        "regions-average-1d-deep",
        "zaslavsky-count",
        "activation-cells-convex",
    ),
    warm=warm,
)
