"""Bayesian networks of finite width: a mixture over one scale per hidden layer."""

import functools
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each
from finitewidth.course._lab.estimate import Estimate, stacked
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import BayesianInference
from finitewidth.prediction.predict import predict


@dataclass(frozen=True)
class WeightedDraws:
    """Networks from the prior, weighted by how likely they make three labels."""

    activation: str
    hidden: tuple[int, ...]
    draws: int
    labels: float
    noise: float = 0.3
    batches: int = 80

    @property
    def network(self) -> MLP:
        return MLP(self.hidden, self.activation, C_b=0.1, C_W=1.2)

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training inputs and labels, and where to predict."""
        x = np.array([[1.0, 0.3], [-0.4, 0.8], [0.5, -1.1]])
        return x, self.labels * np.array([0.9, -0.6, 0.4]), np.array([[0.2, 0.7], [-1.0, -0.5]])


@functools.cache
def _law(setting: WeightedDraws, width: Literal["infinite", "finite"]) -> TrainedDistribution:
    return predict(setting.network, *setting.data, BayesianInference(setting.noise, width))


def _moments(law: TrainedDistribution) -> Prediction:
    return {"mean": np.asarray(law.mean[:, 0]), "spread": np.asarray(law.std)}


def _theory(setting: WeightedDraws) -> Prediction:
    return _moments(_law(setting, "finite"))


def _at_infinite_width(name: str):
    return lambda setting, value: _moments(_law(setting, "infinite"))[name]


def _measure(setting: WeightedDraws, key: PRNGKeyArray) -> Measurement:
    x, y, x_test = setting.data
    every = jnp.asarray(np.concatenate([x, x_test]))
    one = lambda k: setting.network.apply(setting.network.init(k, x.shape[1]), every)[:, 0]
    draw = jax.jit(lambda k: jax.vmap(one)(jax.random.split(k, setting.draws // setting.batches)))
    sums = []
    for batch in range(setting.batches):
        f = np.asarray(draw(jax.random.fold_in(key, batch)))
        weight = np.exp(-0.5 * np.sum((f[:, : len(y)] - y) ** 2, axis=1) / setting.noise)
        at_test = f[:, len(y) :]
        sums.append(np.stack([np.full(2, weight.sum()), weight @ at_test, weight @ at_test**2]))
    return {"mean": _ratio(sums, lambda s: s[1] / s[0]), "spread": _ratio(sums, _spread)}


def _spread(sums: np.ndarray) -> np.ndarray:
    return np.sqrt(sums[2] / sums[0] - (sums[1] / sums[0]) ** 2)


def _ratio(sums: list[np.ndarray], function) -> Estimate:
    """A function of sums over all draws; its error from leaving out batches."""
    total = np.sum(sums, axis=0)
    left_out = np.stack([function(total - part) for part in sums])
    sem = np.sqrt((len(sums) - 1) * left_out.var(axis=0))
    return stacked([Estimate.of(*pair, len(sums) - 1) for pair in zip(function(total), sem, strict=True)])


CLAIMS = (
    Claim(
        id="bayesian-scales-linear",
        title="the posterior of deep linear networks is a mixture over one scale per layer",
        statement=(
            "Given the squared lengths Q_l of the weights that leave each hidden layer, chi squared over "
            "their number, a linear network with one output is a Gaussian process with the kernel scaled by "
            "Q_l at every layer; conditioned on labels it is a mixture of Gaussian processes, at any width."
        ),
        source=f"{BEYOND}: {BOOK}, chapter 6 at finite width",
        quick=WeightedDraws("linear", (2, 3), 800_000, 2.0),
        full=WeightedDraws("linear", (2, 3, 4), 8_000_000, 2.0),
        theory=_theory,
        measure=_measure,
        compare=compare_each({"mean": "posterior mean", "spread": "posterior standard deviation"}),
        wrong={"mean": _at_infinite_width("mean"), "spread": _at_infinite_width("spread")},
    ),
)
