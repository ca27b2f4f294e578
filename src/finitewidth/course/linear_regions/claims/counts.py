"""How many regions networks with one hidden layer have, and what one region is."""

from dataclasses import dataclass

import numpy as np

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.linear_regions.networks.relu_regions import random_layers, relu_gates, relu_program
from finitewidth.course.linear_regions.theory.linear_regions import hyperplane_cells
from finitewidth.measure import regions

_SOURCE = orf_543("12/5")


@dataclass(frozen=True, kw_only=True)
class OneInput(RandomProblem):
    """Networks with one input and one hidden layer."""

    widths: tuple[int, ...]

    def layers(self, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """A network of this width, drawn from the seed."""
        w, b, out = self.rng(width).normal(size=(3, width))
        return [(w[:, None], b), (out[None], np.zeros(1))]

    def theory(self) -> Prediction:
        breakpoints = [np.sort(-b / w[:, 0]) for (w, b), _ in map(self.layers, self.widths)]
        return {
            "pieces": np.array(self.widths) + 1.0,
            "without biases": np.full(len(self.widths), 2.0),
            "breakpoints": np.concatenate(breakpoints),
        }

    def measure(self, key) -> Measurement:
        found, central = [], []
        for width in self.widths:
            first, last = self.layers(width)
            for counted, bias in ((found, first[1]), (central, 0 * first[1])):
                program = relu_program([(first[0], bias), last])
                counted.append(regions.line_regions(program, [0.0], [1.0], whole=True))
        return {
            "pieces": exact(np.array([one.pieces for one in found])),
            "without biases": exact(np.array([one.pieces for one in central])),
            "breakpoints": exact(np.concatenate([one.breakpoints for one in found])),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("pieces by width", predicted["pieces"], measured["pieces"], 1e-9),
            absolute_error(
                "pieces without biases", predicted["without biases"], measured["without biases"], 1e-9
            ),
            relative_error("breakpoints", predicted["breakpoints"], measured["breakpoints"], 1e-8),
        ]


@dataclass(frozen=True, kw_only=True)
class Hyperplanes(RandomProblem):
    """Networks with one hidden layer, whose neurons are hyperplanes in the space of inputs."""

    sizes: tuple[tuple[int, int], ...]
    lines: int

    def theory(self) -> Prediction:
        return {
            "cells": np.array([float(hyperplane_cells(n, d)) for n, d in self.sizes]),
            "central": np.array([float(hyperplane_cells(n, d, central=True)) for n, d in self.sizes]),
            "lines": np.array(float(hyperplane_cells(self.lines, 2))),
        }

    def measure(self, key) -> Measurement:
        found = {"cells": [], "central": []}
        for place, (n, d) in enumerate(self.sizes):
            for name, size in (("cells", 1.0), ("central", 0.0)):
                found[name].append(regions.all_regions(self.program(place, n, d, size), d).number)
        whole = regions.whole_plane_regions(
            self.program(len(self.sizes), self.lines, 2, 1.0), regions.as_plane([0.0, 0.0], np.eye(2))
        )
        return {
            **{name: exact(np.array(counts)) for name, counts in found.items()},
            "lines": exact(float(whole.number)),
        }

    def program(self, place: int, n: int, d: int, size: float):
        """A network with n hidden neurons and d inputs."""
        rng = self.rng(place)
        hidden = rng.normal(size=(n, d)), size * rng.normal(size=n)
        return relu_program([hidden, (rng.normal(size=(1, n)), np.zeros(1))])

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        names = {"cells": "cells", "central": "cells without biases", "lines": f"cells of {self.lines} lines"}
        return [absolute_error(text, predicted[n], measured[n], 1e-9) for n, text in names.items()]


def _leading_power(setting: Hyperplanes, value: np.ndarray) -> np.ndarray:
    """n^d / d!, which holds for many more hyperplanes than dimensions only."""
    return np.array([n**d / np.prod(np.arange(1.0, d + 1)) for n, d in setting.sizes])


def _as_without_biases(setting: Hyperplanes, value: np.ndarray) -> np.ndarray:
    """Hyperplanes through the origin."""
    return np.array([float(hyperplane_cells(n, d, central=True)) for n, d in setting.sizes])


@dataclass(frozen=True)
class SmallNetworks:
    """Networks with two inputs and two small hidden layers, in a square and at random points."""

    draws: int
    points: int
    hidden: tuple[int, int] = (4, 3)
    side: float = 3.0

    def theory(self) -> Prediction:
        return {
            "broken": np.array(0.0),
            "patterns": np.array(2.0 ** sum(self.hidden)),
            "polygons per pattern": np.array(1.0),
            "maps per open cell": np.array(1.0),
            "maps of all shut cells": np.array(1.0),
        }

    def measure(self, key) -> Measurement:
        net = MLP(self.hidden, "relu", 1.0, 2.0)
        plane = regions.as_plane([0.0, 0.0], np.eye(2), self.side)
        u = np.linspace(-self.side, self.side, self.points)
        grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
        broken, cells, patterns, seen, unseen, opened, maps, shut = ([] for _ in range(8))
        for layers in random_layers(net, 2, key, self.draws):
            gates = relu_gates(layers, grid)
            middles = relu_gates(layers, (grid[1:] + grid[:-1][::-1]) / 2)
            alike = (gates[1:] == gates[:-1][::-1]).all(axis=1)
            broken.append(np.sum((middles != gates[1:]).any(axis=1) & alike))
            found = regions.plane_regions(relu_program(layers), plane)
            listed = {row.tobytes() for row in found.patterns}
            visited = {row.tobytes() for row in gates.astype(np.uint8)}
            cells.append(found.number)
            patterns.append(len(listed))
            seen.append(len(visited))
            unseen.append(len(visited - listed))
            is_open = np.asarray(found.patterns[:, self.hidden[0] :].any(axis=1))
            opened.append(is_open.sum())
            maps.append(_maps(found, is_open))
            shut.append(_maps(found, np.logical_not(is_open)))
        return {
            "broken": exact(float(np.sum(broken))),
            "cells": exact(np.array(cells)),
            "polygons per pattern": exact(np.array(cells) / np.array(patterns)),
            "seen": exact(np.array(seen)),
            "unlisted": exact(float(np.sum(unseen))),
            "maps per open cell": exact(np.sum(maps) / np.sum(opened)),
            "maps of all shut cells": exact(float(np.max(shut))),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("middles with another pattern", predicted["broken"], measured["broken"], 1e-9),
            upper_bound("cells", predicted["patterns"], measured["cells"]),
            absolute_error(
                "polygons per pattern",
                predicted["polygons per pattern"],
                measured["polygons per pattern"],
                1e-9,
            ),
            upper_bound("patterns that a grid sees", measured["cells"].value, measured["seen"]),
            absolute_error("patterns of a grid that are not listed", 0.0, measured["unlisted"], 1e-9),
            absolute_error(
                "maps per cell with an open last layer",
                predicted["maps per open cell"],
                measured["maps per open cell"],
                1e-9,
            ),
            absolute_error(
                "maps of all cells with a shut last layer",
                predicted["maps of all shut cells"],
                measured["maps of all shut cells"],
                1e-9,
            ),
        ]


def _maps(found: regions.PlaneRegions, some: np.ndarray) -> int:
    """How many different affine maps some of the cells have."""
    return found._replace(slopes=found.slopes[some], offsets=found.offsets[some]).affine_maps


CLAIMS = (
    Claim(
        id="regions-one-hidden-1d",
        title="one input, one hidden layer: n + 1 pieces",
        statement="""A ReLU network with one input and one hidden layer of n neurons has n + 1 affine pieces,
        with breakpoints at -b_j / w_j: exactly so for generic weights with biases. Without biases all
        breakpoints fall together, and there are two pieces.""",
        source=_SOURCE,
        quick=OneInput(widths=(1, 3, 12, 50, 200)),
        full=OneInput(widths=(1, 3, 12, 50, 200, 1000, 3000)),
        wrong={
            "pieces": (
                lambda setting, value: 2.0 * np.array(setting.widths),
                lambda setting, value: 2.0 ** np.minimum(setting.widths, 50),
            ),
            "without biases": lambda setting, value: np.array(setting.widths) + 1.0,
            "breakpoints": scaled(-1.0),
        },
    ),
    Claim(
        id="zaslavsky-count",
        title="n hyperplanes in d dimensions make sum of binomials cells",
        statement="""n hyperplanes in general position in d dimensions, the neurons of one hidden layer with
        biases, make sum_{i <= d} binomial(n, i) cells: 2^n for n up to d, about n^d / d! for many more.
        Without biases all go through the origin and make 2 sum_{i < d} binomial(n - 1, i).""",
        source=_SOURCE,
        quick=Hyperplanes(sizes=((5, 2), (7, 2), (6, 3), (3, 3), (4, 5)), lines=64),
        full=Hyperplanes(sizes=((5, 2), (12, 2), (9, 3), (3, 3), (4, 5), (8, 4)), lines=256),
        wrong={
            "cells": (_leading_power, _as_without_biases),
            "lines": lambda setting, value: np.array(setting.lines**2 / 2),
        },
    ),
    Claim(
        id="activation-cells-convex",
        title="one convex cell for each activation pattern",
        statement="""All inputs with one activation pattern form one convex cell, so that N neurons make at
        most 2^N cells. The affine map of a cell need not be its own: cells in which all gates of the last
        hidden layer are shut share one. Patterns on a grid are some of those that exist, never others.""",
        source=f"{_SOURCE} (3^N there, with a third value of a gate at zero)",
        quick=SmallNetworks(draws=20, points=200),
        full=SmallNetworks(draws=300, points=400),
        wrong={
            "patterns": lambda setting, value: np.array(2.0 * sum(setting.hidden)),
            "maps of all shut cells": scaled(2.0),
            "broken": lambda setting, value: np.array(1.0),
        },
        bounds={"patterns": "above"},
    ),
)
