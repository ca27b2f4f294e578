r"""Relative fluctuations of the training kernel of finitely wide networks.

$\kappa=\frac nN\,\mathrm{tr}\,E[g\,\Delta H\,g\,\Delta H]$ with g the gain of
training, $\Theta^{-1}$ at its end.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.prediction.finite_width.sampled.mean import layer_sources
from finitewidth.prediction.finite_width.sampled.neuron_sources import (
    Source,
    kernel_fluctuation_a,
    kernel_fluctuation_b,
)
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.statistics.corrections import Corrections
from finitewidth.statistics.hidden_layers import LayerKernels

_SAMPLES = 256
_BATCHES = 4


def dense_kernel_variance(tensors: Corrections, modes: TrainingModes) -> float:
    """kappa from the dense tensors."""
    train = (slice(modes.train),) * 4
    A, B = np.asarray(tensors.A)[train], np.asarray(tensors.B)[train]
    g = (modes.U * _gain(modes)) @ modes.U.T
    trace = np.einsum("abcd,bc,da->", A, g, g) + np.einsum("acbd,bc,da->", B, g, g)
    return float(trace + np.einsum("adbc,bc,da->", B, g, g)) / modes.train


def sampled_kernel_variance(kernels: LayerKernels, modes: TrainingModes, key: PRNGKeyArray) -> float:
    """kappa by sampled neurons and random vectors, to some ten per cent."""
    dtype = jnp.float32
    U, gain = jnp.asarray(modes.U, dtype), jnp.asarray(_gain(modes), dtype)
    total = 0.0
    for l, (source, scale) in enumerate(layer_sources(kernels, modes.train, dtype)):
        draws = [_trace(source, U, gain, jax.random.fold_in(key, _BATCHES * l + i)) for i in range(_BATCHES)]
        total += scale * float(np.mean(draws))
    return total


def _gain(modes: TrainingModes) -> Float[np.ndarray, " k"]:
    return np.asarray(modes.algorithm.gain(jnp.asarray(modes.t)))


@eqx.filter_jit
def _trace(source: Source, U: Array, gain: Array, key: PRNGKeyArray) -> Float[Array, ""]:
    neuron_key, vector_key, probe_key = jax.random.split(key, 3)
    neuron = source.neuron(neuron_key, _SAMPLES)
    signs = jax.random.rademacher(vector_key, (_SAMPLES, 1, len(gain)), U.dtype)
    vector = (signs * jnp.sqrt(gain)) @ U.T
    between = lambda v: ((v @ U) * gain) @ U.T
    value = kernel_fluctuation_a(neuron, between, vector)
    value = value + kernel_fluctuation_b(neuron, probe_key, between, vector, 1)
    return -jnp.mean(jnp.sum(neuron.cut(value) * vector, axis=-1)) / len(gain)
