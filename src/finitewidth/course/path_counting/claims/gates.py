"""Outputs of ReLU networks as sums over paths, and the gates that paths pass."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.architecture.dense import Affine
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, z_score
from finitewidth.course._lab.estimate import Estimate, exact, sample_mean, share
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.path_counting.networks.relu_layers import relu_networks
from finitewidth.statistics.exact.paths import path_count, path_sum

_SOURCE = orf_543("11/30") + ", "


@dataclass(frozen=True)
class OneNetwork(RandomProblem):
    """One network without biases, and one input."""

    n_in: int
    hidden: tuple[int, ...]
    n_out: int

    @property
    def network(self) -> Layer:
        return MLP(self.hidden, "relu", n_out=self.n_out)

    @property
    def weights(self) -> list[np.ndarray]:
        sizes, rng = (self.n_in, *self.hidden, self.n_out), self.rng()
        return [rng.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]

    @property
    def x(self) -> np.ndarray:
        return self.rng(1).normal(size=self.n_in)

    def theory(self) -> Prediction:
        return {
            "outputs": path_sum(self.weights, self.x),
            "paths": np.asarray(path_count(self.network, self.n_in)),
        }

    def measure(self, key) -> Measurement:
        weights = self.weights
        params = tuple(Affine(jnp.asarray(w), jnp.zeros(len(w))) for w in weights)
        outputs = self.network.apply(params, jnp.asarray(self.x)[None])[0]
        # A path is one entry of every matrix: ones multiply to their number.
        ones = np.ones(self.n_in)
        for w in weights:
            ones = np.ones_like(w) @ ones
        return {"outputs": exact(np.asarray(outputs)), "paths": exact(ones.sum())}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("outputs", predicted["outputs"], measured["outputs"], 1e-10),
            absolute_error("number of paths", predicted["paths"], measured["paths"], 0.5),
        ]


def _without_gates(setting: OneNetwork, value: np.ndarray) -> np.ndarray:
    z = setting.x
    for w in setting.weights:
        z = w @ z
    return z


def _of_one_output(setting: OneNetwork, value: np.ndarray) -> np.ndarray:
    return np.asarray(value / setting.n_out)


@dataclass(frozen=True)
class Gates:
    """Two layers of two neurons, and one layer of two neurons with several inputs."""

    draws: int
    n_in: int = 3

    def theory(self) -> Prediction:
        return {
            "patterns": np.full(12, 1 / 12),
            # Both on if the first layer is dead, one time in four; otherwise with probability 1/4.
            "both on": np.asarray(1 / 4 + 3 / 4 / 4),
            "rows": np.asarray(1 / (2 * np.pi)),
            "each row": np.asarray(1 / 4),
        }

    def measure(self, key) -> Measurement:
        patterns_key, key = jax.random.split(key)
        x = np.ones((1, self.n_in))
        gates = [
            np.concatenate(layer.gates, axis=2)[:, 0].astype(int)
            for layer in relu_networks(x, (2, 2), patterns_key, self.draws)
        ]
        gates = np.concatenate(gates)
        alive = gates[gates[:, :2].any(axis=1)]
        counts = np.bincount(alive @ (8, 4, 2, 1), minlength=16)[4:]
        w = random_generator(key).standard_normal((self.draws, 2, self.n_in))
        on = np.all(w.sum(axis=2) >= 0, axis=1)
        each = np.prod(np.sum(w**2, axis=2), axis=1) / self.n_in**2
        return {
            "patterns": Estimate.of(counts / len(alive), np.full(12, np.sqrt(1 / 12 * 11 / 12 / len(alive)))),
            "both on": share(int(np.sum(gates[:, 2] & gates[:, 3])), self.draws, 7 / 16),
            "rows": sample_mean(np.sum(w[:, 0] * w[:, 1], axis=1) * on),
            "each row": sample_mean(each * on),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "patterns": "gates while the first layer is alive",
            "both on": "both gates of the second layer on",
            "rows": "product of two rows with their gates",
            "each row": "even function of each row with its gates",
        }
        return [z_score(text, predicted[name], measured[name]) for name, text in texts.items()]


def _always_fair(setting: Gates, value: np.ndarray) -> np.ndarray:
    return np.asarray(1 / 4)


def _even_in_the_layer(setting: Gates, value: np.ndarray) -> np.ndarray:
    """Gates independent of everything that is even in the weights of the layer."""
    return np.asarray(0.0)


def _dead_layers_counted(setting: Gates, value: np.ndarray) -> np.ndarray:
    """1/16 for every pattern."""
    return np.full(12, 1 / 16)


CLAIMS = (
    Claim(
        id="relu-path-sum",
        title="an output is a sum over paths",
        statement="""Without biases every output of a ReLU network is the sum over all paths from the inputs
        of input times weights times gates along the path, a gate being 1 where the preactivation is not
        negative and 0 otherwise. The number of paths is the product of all sizes, inputs and outputs
        included.""",
        source=_SOURCE + "path sums",
        quick=OneNetwork(3, (5, 4, 5), 2),
        full=OneNetwork(4, (8, 7, 9, 6), 3),
        wrong={"outputs": _without_gates, "paths": _of_one_output},
    ),
    Claim(
        id="relu-gates-bernoulli",
        title="gates are fair coins while the layer below is alive",
        statement="""At one input the gates of a layer whose input is not zero are independent fair coins,
        and independent of every function that is even in the weights of each neuron separately. A dead layer
        below turns all gates on. Functions that are even in the layer as a whole only, such as the product
        of two rows, do depend on the gates.""",
        source=_SOURCE + "gates; with the condition that the layer below is alive",
        quick=Gates(draws=200_000),
        full=Gates(draws=2_000_000),
        wrong={"both on": _always_fair, "rows": _even_in_the_layer, "patterns": _dead_layers_counted},
    ),
)
