"""Random ReLU networks as lists of operations, whose regions can be counted quickly."""

from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.dense import Affine
from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments.network_draws import COMPILER
from finitewidth.measure.regions.program import Builder, Program


def relu_program(layers: Sequence[Affine | tuple[np.ndarray, np.ndarray]]) -> Program:
    """Affine layers (weight, bias) with a ReLU between each two."""
    build = Builder((np.shape(layers[0][0])[1],))
    value = build.linear(0, np.asarray(layers[0][0], float), np.asarray(layers[0][1], float))
    for weight, bias in layers[1:]:
        active = build.select(build.gate(value), None, value)
        value = build.linear(active, np.asarray(weight, float), np.asarray(bias, float))
    return build.program(value, (len(layers[-1][1]),))


def random_layers(net: Layer, n_in: int, key: PRNGKeyArray, draws: int) -> Iterator[list[Affine]]:
    """The affine layers of independent draws of a network."""
    draw = jax.jit(jax.vmap(lambda one: net.init(one, n_in)), compiler_options=COMPILER)
    drawn = jax.device_get(draw(jax.random.split(key, draws)))
    for draw in range(draws):
        yield [Affine(layer.weight[draw], layer.bias[draw]) for layer in drawn]


def relu_gates(layers: Sequence[Affine], x: np.ndarray) -> np.ndarray:
    """Activation patterns (points, neurons) at inputs (points, n), by a plain forward pass."""
    gates = []
    for weight, bias in layers[:-1]:
        z = x @ np.asarray(weight).T + np.asarray(bias)
        gates.append(z > 0)
        x = np.maximum(z, 0)
    return np.concatenate(gates, axis=1)
