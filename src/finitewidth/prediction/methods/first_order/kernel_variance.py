r"""Relative fluctuations of the training kernel of finitely wide networks.

$\kappa=\frac nN\,\mathrm{tr}\,E[g\,\Delta H\,g\,\Delta H]$ with g the gain of
training, $\Theta^{-1}$ at its end.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.either import as_known, einsum, known
from finitewidth.prediction.methods.first_order.sampled.contractions import CrossedNeurons
from finitewidth.prediction.methods.first_order.sampled.neuron import Drawn, Neuron, Signs, Source
from finitewidth.prediction.methods.first_order.sampled.stratified import Sampling
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.corrections import Corrections

_SAMPLES = 1024


def dense_kernel_variance(tensors: Corrections, modes: TrainingModes) -> float | Array:
    """kappa from the dense tensors."""
    train = (slice(modes.train),) * 4
    A, B = known(tensors.A)[train], known(tensors.B)[train]
    g = (modes.U * modes.gain) @ modes.U.T
    trace = einsum("abcd,bc,da->", A, g, g) + einsum("acbd,bc,da->", B, g, g)
    return as_known(trace + einsum("adbc,bc,da->", B, g, g)) / modes.train


def sampled_kernel_variance(sampling: Sampling, rng: np.random.Generator) -> float:
    """kappa by sampled neurons and random vectors, to some ten per cent."""
    total, batches = 0.0, -(-_SAMPLES // sampling.rows)
    gain = jnp.asarray(sampling.modes.gain, sampling.training.decay.t.dtype)
    for source, scale in sampling.sources:
        random = (sampling.drawn(source, rng) for _ in range(batches))
        total += scale * np.mean([_trace(source, sampling.training.decay.U, gain, r) for r in random])
    return float(total)


@eqx.filter_jit
def _trace(source: Source, U: Array, gain: Array, random: Drawn) -> Float[Array, ""]:
    neuron, signs = Neuron(source, *random.derivatives), Signs(random)
    vector = (signs(1, len(gain)) * jnp.sqrt(gain)) @ U.T
    between = lambda v: ((neuron.cut(v) @ U) * gain) @ U.T
    h = CrossedNeurons.of(neuron, signs)
    value = neuron.dtheta(between(neuron.dtheta(vector)))
    value = value + h.onto(between(h.onto(vector) + h.back(vector)))
    return jnp.mean(jnp.sum(neuron.cut(value) * vector, axis=-1)) / len(gain)
