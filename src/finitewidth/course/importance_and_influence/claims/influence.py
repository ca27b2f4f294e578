"""Influence functions against training again without the point, on a table of real data."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from finitewidth import MLP
from finitewidth.course._lab.claim import Check, Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.measure.loss.influence import influence
from finitewidth.measure.loss.leave_one_out import fit_to_the_end, leave_one_out
from finitewidth.measure.specimen import specimen
from finitewidth.report import style
from finitewidth.report.style import Figure

# A little less of a point, and how far its change may be from the slope, in units of the largest.
_LITTLE, _CURVED = 1e-3, 0.03


@dataclass(frozen=True)
class Left(RandomProblem):
    """A classifier of irises, and the training points with the largest loss, to be left out in turn."""

    ridges: tuple[float, ...]
    depths: tuple[int, ...] = (0,)
    train: int = 60
    chosen: int = 16
    width: int = 5

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Standardised training inputs and labels, then those of the test."""
        from sklearn.datasets import load_iris

        x, y = (np.asarray(part) for part in load_iris(return_X_y=True))
        order = self.rng(0).permutation(len(x))
        train, test = order[: self.train], order[self.train :]
        x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
        return x[train], y[train], x[test], y[test]

    def network(self, depth: int) -> MLP:
        """tanh hidden layers, none for softmax regression."""
        return MLP((self.width,) * depth, "tanh", C_b=0.0, C_W=1.0, n_out=3)

    @functools.cache  # noqa: B019  (settings are few and small)
    def fitted(self, depth: int, ridge: float) -> tuple[PyTree, int]:
        """Parameters at the end of training on all points, and the test point with the largest loss."""
        x, y, x_test, y_test = self.data
        net = self.network(depth)
        start = net.init(jax.random.key(int(self.rng(1).integers(2**31))), 4)
        params = fit_to_the_end(net, start, x, y, ridge=ridge)
        return params, int(np.argmax(self.losses(params, x_test, y_test, depth)))

    def losses(self, params: PyTree, x: np.ndarray, y: np.ndarray, depth: int) -> np.ndarray:
        """The loss of every point."""
        logits = np.asarray(self.network(depth).apply(params, jnp.asarray(x)))
        return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]

    def points(self, depth: int, ridge: float) -> np.ndarray:
        """The training points with the largest loss: where leaving one out makes a difference."""
        x, y, _, _ = self.data
        return np.argsort(-self.losses(self.fitted(depth, ridge)[0], x, y, depth))[: self.chosen]

    def predicted_changes(self, depth: int, ridge: float) -> np.ndarray:
        """By influence functions."""
        x, y, x_test, y_test = self.data
        params, worst = self.fitted(depth, ridge)
        trained = specimen(self.network(depth), x, y, params=params)
        test = x_test[[worst]], y_test[[worst]]
        return influence(trained, *test, ridge=ridge).changes[self.points(depth, ridge)]

    def retrained(
        self, depth: int, ridge: float, most_steps: int = 300, share: float | int = 1
    ) -> np.ndarray:
        """By training again from the trained weights, with a share of each point left out, per share."""
        x, y, x_test, y_test = self.data
        params, worst = self.fitted(depth, ridge)
        test = x_test[[worst]], y_test[[worst]]
        return (
            leave_one_out(
                self.network(depth),
                params,
                x,
                y,
                *test,
                ridge=ridge,
                points=self.points(depth, ridge),
                share=share,
                most_steps=most_steps,
            ).changes
            / share
        )

    def pairs(self) -> list[tuple[int, float]]:
        return [(depth, ridge) for depth in self.depths for ridge in self.ridges]

    def theory(self) -> Prediction:
        changes = [self.predicted_changes(*pair) for pair in self.pairs()]
        return {"influence": np.stack(changes), **self.bounds_of_both()}

    def bounds_of_both(self) -> Prediction:
        """What is expected of prediction and training together."""
        return {}

    def measure(self, key) -> Measurement:
        # Training to the end without a point or with a little less of it, and the Newton step with the
        # Hessian of the other points.
        found: dict[str, tuple[int, float | int]] = {"retrained": (300, 1), "reweighted": (300, _LITTLE)}
        if self.depths == (0,):
            found["one step"] = (1, 1)
        return {
            name: exact(np.stack([self.retrained(*pair, *how) for pair in self.pairs()]))
            for name, how in found.items()
        }

    def of_a_little_less(self, predicted: Prediction, measured: Measurement) -> Check:
        """The influence is the slope of the test loss in the weight of a point."""
        largest = np.abs(measured["reweighted"].value).max(axis=1, keepdims=True)
        return absolute_error(
            "change by a thousandth of a point, times 1,000",
            predicted["influence"],
            measured["reweighted"],
            _CURVED * largest,
            "the second order of the share",
        )

    def agreement(self, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Correlation, and slope of actual against predicted changes."""
        rows = []
        for p, a in zip(predicted, actual, strict=True):
            rows.append((np.corrcoef(p, a)[0, 1], np.vdot(p, a) / np.vdot(p, p)))
        correlation, slope = np.array(rows).T
        return correlation, slope

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (axes,) = style.panels("Influence functions against training again")
        for i, ((depth, ridge), color) in enumerate(zip(self.pairs(), style.PALETTE, strict=False)):
            label = f"{depth} hidden layers, ridge {ridge:g}"
            actual, foretold = measured["retrained"].value[i], predicted["influence"][i]
            style.measured_points(axes, foretold, actual, np.zeros(len(actual)), color, label)
        ends = [np.min(predicted["influence"]), np.max(predicted["influence"])]
        style.theory_line(axes, ends, ends, style.GREY, "equal")
        axes.set(xlabel="predicted change of the test loss", ylabel="change after training again")
        axes.legend()
        return figure


@dataclass(frozen=True)
class Convex(Left):
    """Softmax regression."""

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        correlation, slope = self.agreement(predicted["influence"], measured["retrained"].value)
        one, step_slope = self.agreement(measured["one step"].value, measured["retrained"].value)
        return [
            self.of_a_little_less(predicted, measured),
            upper_bound("1 - correlation of influence and training again", 0.05, 1 - correlation),
            absolute_error("slope, influence underestimates", np.clip(slope, 1.0, 2.5), slope, 1e-9),
            upper_bound("1 - correlation of one Newton step", 0.015, 1 - one),
            absolute_error("slope of one Newton step", 1.0, step_slope, 0.15),
        ]


@dataclass(frozen=True)
class Depths(Left):
    """tanh networks of growing depth."""

    def bounds_of_both(self) -> Prediction:
        """With hidden layers over without: the slope with one, and the correlation with two."""
        pairs = len(self.ridges)
        return {"ratio of slopes": np.ones(pairs), "ratio of correlations": np.ones(pairs)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        found = self.agreement(predicted["influence"], measured["retrained"].value)
        correlation, slope = (part.reshape(len(self.depths), -1) for part in found)
        least, most = predicted["ratio of slopes"], predicted["ratio of correlations"]
        return [
            self.of_a_little_less(predicted, measured),
            upper_bound("slope without a hidden layer over that with one", 1 / least, slope[0] / slope[1]),
            upper_bound(
                "correlation with two hidden layers over none", most, correlation[-1] / correlation[0]
            ),
        ]


def _by_gradients_alone(setting: Left, value: np.ndarray) -> np.ndarray:
    """Products of gradients, without the inverse Hessian between them."""
    x, y, x_test, y_test = setting.data
    rows = []
    for depth, ridge in setting.pairs():
        params, worst = setting.fitted(depth, ridge)
        trained = specimen(setting.network(depth), x, y, params=params)
        test = trained.on(x_test[[worst]], y_test[[worst]]).gradient()
        along = np.sum(trained.loss_slopes() * trained.jacobian_product(test), axis=1) / len(x)
        rows.append(along[setting.points(depth, ridge)])
    return np.stack(rows)


_SOURCE = f"{IEMS_402}, influence functions"

CLAIMS = (
    Claim(
        id="influence-convex",
        title="influence functions rank the points of a convex model, and underestimate them",
        statement="""For softmax regression with a ridge of 1e-2 on 60 irises, the influence (1/n) g_test
        H^-1 g_i of the 16 points with the largest loss correlates by 0.95 and more with the change of the
        worst test loss after training again without the point, and is smaller. What is missing is the
        point's leverage: one Newton step with the Hessian of the other points correlates by 0.985 and more,
        with a slope within 0.15 of 1.""",
        source=_SOURCE,
        quick=Convex(ridges=(1e-2,)),
        full=Convex(ridges=(1e-2, 3e-3)),
        wrong={"influence": (_by_gradients_alone, scaled(-1.0))},
    ),
    Claim(
        id="influence-depth",
        title="influence functions are worse for networks than for softmax regression",
        statement="""For tanh networks of width 5 on 60 irises, trained to the end with a ridge of 1e-2, and
        the 16 training points with the largest loss: influence is the slope of the worst test loss in the
        weight of a point at any depth, but not the whole change. The slope of actual against predicted
        changes of the worst test loss is larger with one hidden layer than with none, and their correlation
        is smaller with two.""",
        source=f"{_SOURCE} (in these words only; with two layers the slope may fall again)",
        quick=Depths(ridges=(1e-2,), depths=(0, 1, 2)),
        full=Depths(ridges=(1e-2, 3e-3), depths=(0, 1, 2)),
        bounds={"ratio of slopes": "below", "ratio of correlations": "above"},
        wrong={"influence": (_by_gradients_alone, scaled(-1.0))},
    ),
)
