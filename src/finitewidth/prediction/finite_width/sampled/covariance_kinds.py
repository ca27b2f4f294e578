r"""The kinds of sampled contributions to the covariance, each with its times.

Trained outputs are $u+c/\sqrt n+\dots$, $u=\bar z(0)$ with $\bar z$ what training leaves of a function, and
the coefficient of 1/n in their covariance is $M+M^T$ plus parts that need no sampling. M has three groups of
kinds: half the square of the response to kernel fluctuations (`AA`, `BB`), the correlation of u with these
fluctuations (`zH`), and the correlation of u with each source of the mean. There u is correlated with one
residual of the source, all others stay as they are: u and the direction in which that residual moves are
drawn together, as random vectors whose mean product is $E[u\,z(0)]$.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.prediction.finite_width.projector_weights import first_weights
from finitewidth.prediction.finite_width.sampled.covariance_sources import (
    Product,
    correlated_kernel,
    first_change_of_start,
    response_a,
    response_b,
)
from finitewidth.prediction.finite_width.sampled.mean_kinds import (
    BLOCKS,
    Decay,
    delivered,
    fluctuation_legs,
    kinds,
)
from finitewidth.prediction.finite_width.sampled.neuron_sources import (
    Legs,
    Neuron,
    Rows,
    first_change,
    kernel_fluctuation_a,
    kernel_fluctuation_b,
    second_change,
)
from finitewidth.prediction.finite_width.sampled.time_nodes import Times
from finitewidth.prediction.finite_width.training_modes import TrainingModes

CovarianceKind = Literal["AA", "BB", "zH", "A", "B", "a2", "b2", "a3", "b3", "c3", "d3"]

# Matrix products per sample, roughly: what a sample costs.
COST: dict[str, float] = {
    **{"AA": 12, "BB": 10, "zH": 14, "A": 12, "B": 11, "a2": 45, "b2": 62},
    **{"a3": 32, "b3": 68, "c3": 68, "d3": 110},
}


def covariance_kinds(modes: TrainingModes) -> tuple[CovarianceKind, ...]:
    """The kinds that an algorithm has."""
    return ("AA", "BB", "zH", *kinds(modes))


class InitialOutputs(eqx.Module):
    """Random initial outputs, and what training leaves of them at the test points.

    `root` times random signs has the second moments of initial outputs in the eigenbasis. `left` and
    `residual` times the same signs have the mean product of what is left of them with what was there.
    """

    bar: Float[Array, "test p"]
    root: Float[Array, "k k"]
    left: Float[Array, "test s"]
    residual: Float[Array, "k s"]

    @classmethod
    def of(cls, modes: TrainingModes, dtype) -> "InitialOutputs":
        bar = unlearnt(modes)
        values, vectors = np.linalg.eigh(modes.Kt)
        root = vectors * np.sqrt(np.maximum(values, 0))
        # Residuals count as much as training learns from them; without training there is nothing to compare.
        gain = first_weights(modes.t, modes.algorithm)[0]
        gain = gain if gain.all() else np.ones_like(gain)
        product = bar @ modes.K[:, : modes.train] @ modes.U
        left, sizes, right = np.linalg.svd(product * gain, full_matrices=False)
        sides = left * np.sqrt(sizes), right.T * np.sqrt(sizes) / gain[:, None]
        return cls(*(jnp.asarray(a, dtype) for a in (bar, root, *sides)))


def unlearnt(modes: TrainingModes) -> Float[np.ndarray, "test p"]:
    """What training leaves of a function, at the test points."""
    h = first_weights(modes.t, modes.algorithm)[0]
    bar = np.eye(len(modes.K))[modes.train :]
    bar[:, : modes.train] -= (modes.Theta_modes[modes.train :] * h) @ modes.U.T
    return bar


def contributions(
    kind: CovarianceKind, neuron: Neuron, decay: Decay, start: InitialOutputs, key: PRNGKeyArray, times: Times
) -> tuple[Float[Array, "rows terms test"], Float[Array, "rows terms test"]]:
    """One sample of M per time, as a sum over terms of products of functions of the test points."""
    column = lambda a: a[:, None, None]
    late, early, odd, early_odd = (column(a) for a in times[:4])
    rows, outputs = len(times.late), decay.Y.shape[1]
    probe_key, start_key, pair_key, mix_key = jax.random.split(key, 4)
    signs = lambda key, outputs, size: jax.random.rademacher(key, (rows, outputs, size), decay.t.dtype)
    residual = signs(start_key, outputs, len(decay.t)) @ start.root.T - decay.Y
    bar = lambda v: v @ start.bar.T
    deliver = lambda v: delivered(decay, v, late, odd)

    def correlated(outputs: int) -> tuple[Rows, Rows]:
        """What is left of the start, and the residuals that go with it."""
        drawn = signs(pair_key, outputs, start.left.shape[1])
        return drawn @ start.left.T, drawn @ start.residual.T

    if kind in ("AA", "BB"):
        first, second = (
            (_learning(decay, *t) * residual) @ decay.U.T for t in ((early, early_odd), (late, odd))
        )
        if kind == "AA":
            pair = response_a(neuron, first, second)
        else:
            pair = response_b(neuron, probe_key, first, second, outputs)
        terms = [Product(delivered(decay, pair.left, early, early_odd) / (2 * outputs), deliver(pair.right))]
    elif kind == "zH":
        weight = _learning(decay, late, odd)
        sides = jnp.sqrt(jnp.abs(weight)) * signs(start_key, 1, len(decay.t))
        first, second = sides @ decay.U.T, (jnp.sign(weight) * sides) @ decay.U.T
        pairs = correlated_kernel(neuron, probe_key, first, second, outputs)
        terms = [Product(bar(left), deliver(right)) for left, right in pairs]
    elif kind in ("A", "B"):
        u, direction = correlated(1)
        between, alpha = fluctuation_legs(decay, -direction, late, early, early_odd)
        if kind == "A":
            value = kernel_fluctuation_a(neuron, between, alpha)
        else:
            value = kernel_fluctuation_b(neuron, probe_key, between, alpha, outputs)
        terms = [Product(u, deliver(value))]
    elif kind in ("a2", "b2"):
        modes, moved = decay.pair(kind, late, odd), kind == "b2"
        u, direction = correlated(1)
        value = first_change(neuron, probe_key, decay.U, modes, -direction, outputs, moved=moved)
        terms = [Product(u, deliver(value))]
        a, b = ((w * residual) @ decay.U.T for w in modes)
        for left, right in first_change_of_start(neuron, probe_key, (a, b), outputs, moved=moved):
            terms.append(Product(bar(left), deliver(jnp.mean(right, axis=1, keepdims=True))))
    else:
        mix = signs(mix_key, outputs, 1)
        factors = decay.triple(kind, late, early, odd, early_odd)
        change = lambda residual: _second_change(kind, neuron, probe_key, decay, factors, residual, mix)
        u, direction = correlated(outputs)
        _, slope = jax.jvp(change, (residual,), (direction,))
        terms = [Product(u / outputs, deliver(slope))]
    left, right = (jnp.concatenate(side, axis=1) for side in zip(*terms, strict=True))
    return left, column(times.weight) * right


def _learning(decay: Decay, time: Rows, odd: Rows) -> Rows:
    """What one step, or unit of time, learns of the initial residual; all of training at its end."""
    if decay.ended:
        return jnp.broadcast_to(1 / decay.t, (*time.shape[:2], len(decay.t)))
    return (1.0 if decay.flow else decay.eta) * decay.power(time, odd)


def _second_change(
    kind: CovarianceKind, neuron: Neuron, key: PRNGKeyArray, decay: Decay, factors, residual: Rows, mix: Rows
) -> Rows:
    mixed = residual if decay.Y.shape[1] == 1 else jnp.sum(mix * residual, axis=1, keepdims=True)
    legs = []
    for factor in factors:
        own = (factor * residual) @ decay.U.T
        legs.append(Legs(own, own if mixed is residual else (factor * mixed) @ decay.U.T))
    return second_change(neuron, key, *legs, blocks=BLOCKS[kind])
