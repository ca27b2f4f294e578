"""Phases of a one-point network with frozen gates: lazy below 2, catapult up to about 4, divergent above."""

from dataclasses import dataclass

import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled, shifted
from finitewidth.course.large_learning_rates.networks import one_point
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork

_GRID = 17
_ROUNDS = 5
# eta lambda from which a network cannot come back.
_ESCAPED = 100.0


@dataclass(frozen=True)
class Networks(RandomProblem):
    """One random network of each width, all with the same first output."""

    widths: tuple[int, ...]
    output: float = 0.8
    n_in: int = 3

    def start(self, i: int) -> one_point.Weights:
        """The network of the width number i."""
        return one_point.draw(self.rng(i), 1, self.widths[i], self.n_in, self.output)

    def state(self, i: int, label: float = 0.0) -> OnePointNetwork:
        """What the theory knows of it."""
        weights = self.start(i)
        return OnePointNetwork.of_weights(weights.u[0], weights.v[0], weights.x, label)

    def run(self, i: int, label: float, edges: np.ndarray, steps: int) -> one_point.Run:
        """Real training at multiples of 1 / lambda_0."""
        start = self.start(i)
        return one_point.train(start.copies(len(edges)), label, edges / start.kernels[0], steps)


@dataclass(frozen=True)
class Boundaries(Networks):
    """Steps around both boundaries, for several labels."""

    labels: tuple[float, ...] = (0.0, 1.0, -1.0)
    edges: tuple[float, ...] = (1.0, 1.8, 2.2, 2.6, 3.0, 3.4)
    steps: int = 150

    def theory(self) -> Prediction:
        states = [[self.state(i, y) for i in range(len(self.widths))] for y in self.labels]
        found = [[float(s.divergence_boundary()) for s in row] for row in states]
        wide = [[float(s.wide_divergence_boundary) for s in row] for row in states]
        return {
            "boundary": np.array(found),
            "wide boundary": np.array(wide),
            "distance": 50.0 / np.array(self.widths),
            "rises": np.array(self.edges) > 2,
            "final": np.full(len(self.edges), 2.0),
        }

    def measure(self, key) -> Measurement:
        widths = range(len(self.widths))
        found = np.array([[self.bisect(i, y) for i in widths] for y in self.labels])
        etas = np.array(self.edges)
        run = self.run(len(self.widths) - 1, 1.0, etas, self.steps)
        losses = (run.outputs - 1.0) ** 2
        end = run.kernels[-1] / run.kernels[0] * etas
        return {
            "boundary": exact(found),
            "rises": exact(losses.max(axis=0) > losses[0] * (1 + 1e-9)),
            "final": exact(end),
        }

    def bisect(self, i: int, label: float) -> float:
        """Where real training begins to diverge: the first step of ever finer grids that does."""
        low, high = 3.0, 5.0
        for _ in range(_ROUNDS):
            grid = np.linspace(low, high, _GRID)
            run = self.run(i, label, grid, self.steps)
            sharp = run.kernels / run.kernels[0] * grid
            first = int(np.argmax(sharp.max(axis=0) > _ESCAPED))
            low, high = grid[first - 1], grid[first]
        return (low + high) / 2

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        found = measured["boundary"]
        cell = 2.0 / (_GRID - 1) ** _ROUNDS
        shift = found.value - 4
        return [
            absolute_error("where divergence begins", predicted["boundary"], found, cell),
            absolute_error(
                "4 + 16 a y r_0 / lambda_0^2",
                predicted["wide boundary"],
                found,
                cell + shift**2,
                "the next order in 1/m, and the grid",
            ),
            upper_bound(
                "distance from 4, against 50 / width", predicted["distance"], exact(np.abs(found.value - 4))
            ),
            absolute_error("the loss rises above its start", predicted["rises"], measured["rises"], 0.1),
            upper_bound("eta lambda at the end", predicted["final"], measured["final"]),
        ]


@dataclass(frozen=True)
class Lazy(Networks):
    """A step below 2 / lambda_0, with and without a label."""

    labels: tuple[float, ...] = (0.0, 0.5)
    edge: float = 0.5
    steps: int = 60
    # Steps after which the residual is compared: it is far from rounding.
    early: int = 20

    def theory(self) -> Prediction:
        rows = [[self.state(i, y) for i in range(len(self.widths))] for y in self.labels]
        drift = [
            [m * float(s.lazy_drift(self.edge / s.kernel)) for m, s in zip(self.widths, row, strict=True)]
            for row in rows
        ]
        left = [[float((1 - self.edge) ** self.early * s.residual) for s in row] for row in rows]
        return {"drift": np.array(drift), "residual": np.array(left)}

    def measure(self, key) -> Measurement:
        edges = np.array([self.edge])
        drift, left = [], []
        for y in self.labels:
            runs = [self.run(i, y, edges, self.steps) for i in range(len(self.widths))]
            drift.append(
                [m * (r.kernels[-1, 0] - r.kernels[0, 0]) for m, r in zip(self.widths, runs, strict=True)]
            )
            left.append([r.outputs[self.early, 0] - y for r in runs])
        return {"drift": exact(np.array(drift)), "residual": exact(np.array(left))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        small = 1 / np.array(self.widths)
        return [
            relative_error(
                "width times drift of the kernel", predicted["drift"], measured["drift"], 20 * small
            ),
            relative_error(
                f"residual after {self.early} steps",
                predicted["residual"],
                measured["residual"],
                10 * self.early * small,
            ),
        ]


@dataclass(frozen=True)
class Heights(Networks):
    """A catapult at many widths, with labels of zero: how long outputs grow, and how high."""

    output: float = 0.05
    edge: float = 3.0
    steps: int = 60
    reach: float = 0.02

    def theory(self) -> Prediction:
        states = [self.state(i) for i in range(len(self.widths))]
        time = [float(s.growth_time(self.edge / s.kernel, self.reach)) for s in states]
        growth = np.log(self.edge - 1)
        return {
            "time": np.array(time),
            "slope": np.array(0.5 / growth),
            "height": np.array([self.wide_height(s) for s in states]),
            "exponent": np.array(1.0),
        }

    def wide_height(self, state: OnePointNetwork) -> float:
        """The largest |z| a^1/2 / lambda_0 of a network that needs forty more steps to get there."""
        wider = state.curvature / (self.edge - 1) ** 80
        far = OnePointNetwork(state.output, state.kernel, wider, state.label)
        peak = far.phases(self.edge / far.kernel).peak
        return float(peak * np.sqrt(wider) / state.kernel)

    def measure(self, key) -> Measurement:
        time, height, loss, width = [], [], [], []
        for i in range(len(self.widths)):
            run = self.run(i, 0.0, np.array([self.edge]), self.steps)
            unit = run.kernels[0, 0] / np.sqrt(self.start(i).curvature)
            size = np.abs(run.outputs[:, 0])
            time.append(_crossing(np.log(size), np.log(self.reach * unit)))
            height.append(size.max() / unit)
            loss.append(size.max() ** 2 / 2)
            # What the width is when the kernel is 1: the fluctuations of kernels are no part of the claim.
            width.append(unit**2)
        slope = np.polyfit(np.log(width), time, 1)[0]
        return {
            "time": exact(np.array(time)),
            "slope": exact(slope),
            "height": exact(np.array(height)),
            "exponent": exact(fitted_power(np.array(width), np.array(loss))),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("steps of growth", predicted["time"], measured["time"], 0.05),
            relative_error("steps of growth per log width", predicted["slope"], measured["slope"], 0.05),
            relative_error(
                "largest |z| / width^1/2", predicted["height"], measured["height"], 1 / np.array(self.widths)
            ),
            absolute_error(
                "power of the width in the largest loss", predicted["exponent"], measured["exponent"], 0.05
            ),
        ]


def _crossing(levels: np.ndarray, level: float) -> float:
    """The time at which a growing sequence reaches a level, between steps on a straight line."""
    after = int(np.argmax(levels > level))
    return after - (levels[after] - level) / (levels[after] - levels[after - 1])


@dataclass(frozen=True)
class Divergence(Networks):
    """Steps above 4 / lambda_0, with labels of zero: the first factor of growth, and the last."""

    edges: tuple[float, ...] = (4.3, 5.0, 6.0)
    steps: int = 80

    def theory(self) -> Prediction:
        states = [self.state(i) for i in range(len(self.widths))]
        late = [[float(s.late_factor(e / s.kernel)) for e in self.edges] for s in states]
        first = np.abs(1 - np.array(self.edges))
        return {
            "first factor": np.broadcast_to(first, (len(states), len(first))),
            "late factor": np.log(late),
            "late tripling": np.full((len(states), len(first)), 3.0),
        }

    def measure(self, key) -> Measurement:
        first, factor, tripling = [], [], []
        for i in range(len(self.widths)):
            run = self.run(i, 0.0, np.array(self.edges), self.steps)
            sizes = np.log(np.abs(run.outputs.T))
            ends = np.array([row[[t - 1, t]] for row, t in zip(sizes, _last(sizes), strict=True)])
            unit = np.log(np.sqrt(self.start(i).curvature) * np.array(self.edges) / run.kernels[0])
            first.append(np.exp(sizes[:, 1] - sizes[:, 0]))
            factor.append(ends[:, 1] - 3 * ends[:, 0])
            tripling.append((ends[:, 1] + unit) / (ends[:, 0] + unit))
        return {
            "first factor": exact(np.array(first)),
            "late factor": exact(np.array(factor)),
            "late tripling": exact(np.array(tripling)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        width = np.array(self.widths)[:, None]
        return [
            relative_error("first |z'/z|", predicted["first factor"], measured["first factor"], 30 / width),
            absolute_error("late log |z'/z^3|", predicted["late factor"], measured["late factor"], 1e-3),
            absolute_error(
                "late log |b z'| / log |b z|", predicted["late tripling"], measured["late tripling"], 1e-3
            ),
        ]


def _last(sizes: np.ndarray) -> np.ndarray:
    """The last step that moved each network: training stops before numbers overflow."""
    return np.array([int(np.flatnonzero(np.diff(row))[-1]) + 1 for row in sizes])


def _four_for_any_label(setting: Boundaries, value: np.ndarray) -> np.ndarray:
    """The boundary of a label of zero."""
    return np.full(value.shape, 4.0)


def _mirrored(setting: Boundaries, value: np.ndarray) -> np.ndarray:
    """The shift by a label with the other sign."""
    return 8 - value


def _height_of_one_width(setting: Heights, value: np.ndarray) -> np.ndarray:
    """Outputs that reach the same size at every width."""
    return value * np.sqrt(setting.widths[0] / np.array(setting.widths))


def _no_label(setting: Lazy, value: np.ndarray) -> np.ndarray:
    """The drift without the term of the label."""
    e, y = setting.edge, np.array(setting.labels)[:, None]
    r = setting.output - y
    return value * ((4 - e) / (2 - e) * r) / ((4 - e) / (2 - e) * r + 4 * y)


def _exponential(setting: Divergence, value: np.ndarray) -> np.ndarray:
    """One factor |1 - eta lambda_0| for all time: logarithms grow by a constant."""
    return np.ones_like(value)


_SOURCE = orf_543("11/7")
_WIDTH = "width"

CLAIMS = (
    Claim(
        id="catapult-phase-boundaries",
        title="one point: lazy below 2, catapult below 4, divergent above",
        statement="""For a one-point network of width m with frozen gates the loss rises above its start if
        and only if eta lambda_0 > 2, away from the boundary by more than a term of order 1/m. Training still
        converges, with eta lambda < 2 at the end, up to a boundary that is exactly 4 for y = 0, since then
        lambda falls if and only if eta lambda < 4. For y != 0 it is 4 + 16 a y (z_0 - y)/lambda_0^2 to first
        order in 1/m, and within 50/m of 4 for z_0 = 0.8 and y = -1, 0, 1.""",
        source=f"{_SOURCE} (the shift by a label is beyond it)",
        quick=Boundaries(widths=(200, 800)),
        full=Boundaries(widths=(100, 300, 1000, 3000, 10_000), labels=(0.0, 0.5, 1.0, -1.0)),
        figure=Curves("widths", _WIDTH, "labels", "y = %g"),
        wrong={
            "boundary": (_four_for_any_label, _mirrored, scaled(1.01)),
            "wide boundary": (_four_for_any_label, _mirrored),
            "distance": scaled(0.1),
            "rises": lambda setting, value: np.array(setting.edges) > 1,
            "final": scaled(0.5),
        },
        bounds={"distance": "above", "final": "above"},
    ),
    Claim(
        id="catapult-lazy-phase",
        title="one point: below 2 the kernel drifts by order 1/width",
        statement="""For eta lambda_0 = e < 2 a one-point network of width m with frozen gates has z_t - y =
        (1 - e)^t (z_0 - y)(1 + O(t/m)), and its kernel moves by -(a/lambda_0)((4 - e)/(2 - e) r_0^2 +
        4 y r_0) in all, to first order in a = |x|^2/(md), with r_0 = z_0 - y.""",
        source=f"{_SOURCE} (the sum of the drift is beyond it)",
        quick=Lazy(widths=(300, 3000, 30_000)),
        full=Lazy(widths=(100, 300, 1000, 3000, 10_000, 30_000, 100_000), labels=(0.0, 0.5, -0.5)),
        figure=Curves("widths", _WIDTH, "labels", "y = %g"),
        wrong={"drift": (_no_label, scaled(0.5), scaled(1e-3)), "residual": scaled(1.01)},
    ),
    Claim(
        id="catapult-time-and-height",
        title="a catapult lasts log m and rises to the root of m",
        statement="""For 2 < eta lambda_0 < 4 outputs of a one-point network of width m with frozen gates grow
        for T_1 = (1/2) log m / log|1 - eta lambda_0| steps up to a constant. Their largest size over m^1/2 is
        a periodic function of log m with period 2 log|1 - eta lambda_0|, up to 1/m: the largest loss is of
        order m.""",
        source=f"{_SOURCE} (the periodic dependence on the width is beyond it)",
        quick=Heights(widths=(1000, 2000, 4000, 8000, 16_000, 32_000)),
        full=Heights(widths=tuple(int(1000 * 2 ** (k / 2)) for k in range(18))),
        figure=Curves("widths", _WIDTH),
        wrong={
            "time": shifted(1.0),
            "slope": scaled(2.0),
            "height": (_height_of_one_width, scaled(1.02)),
            "exponent": (scaled(0.0), scaled(0.5)),
        },
    ),
    Claim(
        id="catapult-divergence-law",
        title="divergence is doubly exponential",
        statement="""Above the boundary outputs of a one-point network with frozen gates grow by |1 - eta
        lambda_0| a step only until |z| is of order m^1/2. Then z'/z^3 tends to a eta^2: log|b z| with
        b = a^1/2 eta triples at every step, so that the last ratio of log|z'| to log|z| before an overflow
        tends to 3.""",
        source=f"{_SOURCE} (which has one exponential for all time)",
        quick=Divergence(widths=(1000, 10_000)),
        full=Divergence(widths=(300, 1000, 3000, 10_000, 100_000), edges=(4.2, 4.3, 5.0, 6.0, 8.0)),
        figure=Curves("edges", r"$\eta\lambda_0$", "widths", "width %g"),
        wrong={
            "first factor": scaled(1.05),
            "late factor": shifted(float(np.log(2))),
            "late tripling": (_exponential, scaled(2 / 3)),
        },
    ),
)
