"""Trained networks far from infinite width: each neuron moves in the mean field of the others."""

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.estimate import jackknife
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.networks.training.control_variates import paired_ensemble
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.first_order.dense.method import DenseTensors
from finitewidth.prediction.methods.mean_field.method import MeanField
from finitewidth.prediction.predict import predict
from finitewidth.report import style
from finitewidth.report.style import Figure

# The mean field leaves terms of order 1/n^2 and has a sampling error: together below this part of the largest
# shift that it predicts.
_LEFT = 0.12


@dataclass(frozen=True)
class NarrowNetworks:
    """Narrow networks and large labels: six points to learn, two to predict, and a small ridge."""

    width: int
    neurons: int
    pairs: int
    steps: int = 220
    eta: float = 0.3
    ridge: float = 0.1

    def network(self, width: int | None = None) -> Layer:
        return equal_layers(width or self.width, 1, "tanh", 0.1, 1.3, lambda_b=0.1)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training inputs and labels, and where to predict."""
        x = np.array(
            [
                [1.1, 0.2, -0.5], [-0.8, 1.0, 0.3], [0.1, -1.2, 0.8], [0.3, 0.6, 1.3],
                [-1.2, -0.4, -0.6], [0.5, -0.3, -1.4], [0.7, 0.8, 0.2], [-0.4, -0.3, 0.5],
            ]
        )  # fmt: skip
        return x[:6], np.array([2.7, -2.1, 1.5, 3.3, -1.2, 1.8]), x[6:]


@functools.cache
def _law(setting: NarrowNetworks, order: int, neurons: int = 0) -> TrainedDistribution:
    method = MeanField(neurons) if neurons else None
    if order == 0:
        return predict(setting.network(), *setting.data, ridge=setting.ridge, method=method)
    # The coefficients of 1/n do not depend on n, and a wide network gives no warning.
    law = predict(setting.network(4096), *setting.data, ridge=setting.ridge, order=1, method=DenseTensors())
    infinite, more = _law(setting, 0), 4096 / setting.width
    mean = infinite.mean + more * law.mean_correction
    covariance = infinite.covariance + more * jnp.asarray(law.covariance_correction)
    return TrainedDistribution(mean, covariance)


def _theory(setting: NarrowNetworks) -> Prediction:
    return _moments(_law(setting, 0, setting.neurons))


def _moments(law: TrainedDistribution) -> Prediction:
    return {"mean": np.asarray(law.mean[:, 0]), "variance": np.diag(np.asarray(law.covariance)).copy()}


def _measure(setting: NarrowNetworks, key: PRNGKeyArray) -> Measurement:
    how = {"steps": setting.steps, "learning_rate": setting.eta, "ridge": setting.ridge}
    z = paired_ensemble(setting.network(), key, setting.pairs, *setting.data, linear_size=2, **how).outputs[
        ..., 0
    ]
    moments = np.stack([z.mean(axis=1), (z**2).mean(axis=1)], axis=1)
    return {
        "mean": jackknife(moments, lambda average: average[0]),
        "variance": jackknife(moments, lambda average: average[1] - average[0] ** 2),
    }


def _compare(setting: NarrowNetworks, predicted: Prediction, measured: Measurement) -> Checks:
    infinite, whole = _moments(_law(setting, 0)), _theory(setting)
    for name, value in predicted.items():
        left = _LEFT * np.abs(whole[name] - infinite[name]).max()
        yield z_score(f"trained {name}", value, measured[name], left)


def _instead(order: int, name: str):
    def wrong(setting: NarrowNetworks, value: np.ndarray) -> np.ndarray:
        return _moments(_law(setting, order))[name]

    return wrong


def _figure(setting: NarrowNetworks, predicted: Prediction, measured: Measurement) -> Figure:
    figure, panels = style.panels("Each neuron in the mean field of the others", count=2)
    for axes, name in zip(panels, ("mean", "variance"), strict=True):
        laws = {
            "infinite width": _moments(_law(setting, 0))[name],
            "order 1/n": _moments(_law(setting, 1))[name],
            "mean field": predicted[name],
        }
        points = np.arange(len(predicted[name]))
        for k, (label, values) in enumerate(laws.items()):
            axes.plot(points + 0.08 * (k - 1), values, "_", ms=22, mew=2, color=style.PALETTE[k], label=label)
        found = measured[name]
        style.measured_points(axes, points, found.value, found.sem, style.GREY, "networks")
        axes.set(xlabel="test point", ylabel=name, xticks=points)
        style.legend(axes)
    return figure


CLAIMS = (
    Claim(
        id="trained-mean-field",
        title="neurons in the mean field describe networks that are too narrow for order 1/n",
        statement=(
            "Networks with one hidden layer, trained to the end with a ridge, have the mean and variance of "
            "neurons that each rest in the field of all the others, whose dual vector e = (y - z) / r knows "
            "nothing of the neuron and answers to it with the response G. At width 16, with labels up to "
            "3.3, the shift of the mean is a third of its first order in 1/n."
        ),
        source=f"{BEYOND}: {BOOK}, chapter infinity",
        quick=NarrowNetworks(16, 8192, 1000),
        full=NarrowNetworks(16, 65_536, 8000),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
        wrong={
            "mean": (_instead(0, "mean"), _instead(1, "mean")),
            "variance": (_instead(0, "variance"), _instead(1, "variance")),
        },
    ),
)
