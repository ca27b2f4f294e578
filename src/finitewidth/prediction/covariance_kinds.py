r"""The kinds of sampled contributions to the covariance, each with its times.

Trained outputs are $u+c/\sqrt n+\dots$, $u=\bar z(0)$ with $\bar z$ what training leaves of a function, and the
coefficient of 1/n in their covariance is $M+M^T$ plus parts that need no sampling. M has three groups of kinds:
half the square of the response to kernel fluctuations (`AA`, `BB`), the correlation of u with these
fluctuations (`zH`), and the correlation of u with each source of the mean. A source enters through its
residuals $z(0)-y$. Where it is linear in them the labels drop out and random signs have the moments of initial
outputs; the ddNTK is cubic, needs Gaussian ones, and keeps only what is odd in them.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.dynamics.mode_weights import first_weights
from finitewidth.dynamics.time_nodes import Times
from finitewidth.prediction import sampled_kinds
from finitewidth.prediction.covariance_sources import (
    Product,
    correlated_kernel,
    first_change_of_start,
    response_a,
    response_b,
)
from finitewidth.prediction.modes import TrainingModes
from finitewidth.prediction.neuron_sources import (
    Legs,
    Neuron,
    Rows,
    Source,
    first_change,
    kernel_fluctuation_a,
    kernel_fluctuation_b,
    second_change,
)
from finitewidth.prediction.sampled_kinds import BLOCKS, Decay, delivered, fluctuation_legs

CovarianceKind = Literal["AA", "BB", "zH", "A", "B", "a2", "b2", "a3", "b3", "c3", "d3"]

# Matrix products per sample, roughly: what a sample costs.
COST: dict[str, float] = {
    **{"AA": 12, "BB": 10, "zH": 14, "A": 12, "B": 11, "a2": 45, "b2": 62},
    **{"a3": 32, "b3": 68, "c3": 68, "d3": 110},
}
# Initial outputs with less than this share of the largest variance are rounding errors.
_NO_VARIANCE = 1e-12


def covariance_kinds(modes: TrainingModes) -> tuple[CovarianceKind, ...]:
    """The kinds that an algorithm has."""
    return ("AA", "BB", "zH", *sampled_kinds.kinds(modes))


class Start(eqx.Module):
    """Random initial outputs, and what training leaves of a function at the test points.

    `root` times standard variables gives initial outputs in the eigenbasis; `left` times the same ones is the
    average of what is left of them at the test points, given those on the training set.
    """

    bar: Float[Array, "test p"]
    root: Float[Array, "k s"]
    left: Float[Array, "test s"]

    @classmethod
    def of(cls, modes: TrainingModes, dtype) -> "Start":
        bar = unlearnt(modes)
        values, vectors = np.linalg.eigh(modes.K[: modes.train, : modes.train])
        known = values > _NO_VARIANCE * values[-1]
        scale = np.sqrt(values[known])
        root = modes.U.T @ (vectors[:, known] * scale)
        left = bar @ modes.K[:, : modes.train] @ (vectors[:, known] / scale)
        return cls(*(jnp.asarray(a, dtype) for a in (bar, root, left)))


def unlearnt(modes: TrainingModes) -> Float[np.ndarray, "test p"]:
    """What training leaves of a function, at the test points."""
    h = first_weights(modes.t, modes.algorithm)[0]
    bar = np.eye(len(modes.K))[modes.train :]
    bar[:, : modes.train] -= (modes.Theta_modes[modes.train :] * h) @ modes.U.T
    return bar


def contributions(
    kind: CovarianceKind, source: Source, decay: Decay, start: Start, key: PRNGKeyArray, times: Times
) -> tuple[Float[Array, "rows terms test"], Float[Array, "rows terms test"]]:
    """One sample of M per time, as a sum over terms of products of functions of the test points."""
    column = lambda a: a[:, None, None]
    late, early, odd, early_odd = (column(a) for a in times[:4])
    rows, outputs = len(times.late), decay.Y.shape[1]
    neuron_key, probe_key, start_key, mix_key = jax.random.split(key, 4)
    neuron = source.neuron(neuron_key, rows)
    signs = lambda outputs: jax.random.rademacher(
        start_key, (rows, outputs, start.root.shape[1]), decay.t.dtype
    )
    bar = lambda v: v @ start.bar.T
    deliver = lambda v: delivered(decay, v, late, odd)

    if kind in ("AA", "BB"):
        residual = decay.Y - signs(outputs) @ start.root.T
        first, second = ((_learning(decay, *t) * residual) @ decay.U.T for t in ((early, early_odd), (late, odd)))
        if kind == "AA":
            pair = response_a(neuron, first, second)
        else:
            pair = response_b(neuron, probe_key, first, second, outputs)
        terms = [Product(delivered(decay, pair.left, early, early_odd) / (2 * outputs), deliver(pair.right))]
    elif kind == "zH":
        weight = _learning(decay, late, odd)
        sides = jnp.sqrt(jnp.abs(weight)) * jax.random.rademacher(start_key, weight.shape, weight.dtype)
        first, second = sides @ decay.U.T, (jnp.sign(weight) * sides) @ decay.U.T
        pairs = correlated_kernel(neuron, probe_key, first, second, outputs)
        terms = [Product(bar(left), deliver(right)) for left, right in pairs]
    elif kind in ("a3", "b3", "c3", "d3"):
        normal = jax.random.normal(start_key, (rows, outputs, start.root.shape[1]), decay.t.dtype)
        mix = jax.random.rademacher(mix_key, (rows, outputs, 1), decay.t.dtype)
        factors = decay.triple(kind, late, early, odd, early_odd)
        change = lambda residual: _second_change(kind, neuron, probe_key, decay, factors, residual, mix)
        drawn = normal @ start.root.T
        # What is even in the initial outputs is not correlated with them.
        odd_part = (change(drawn - decay.Y) - change(-drawn - decay.Y)) / 2
        terms = [Product(normal @ start.left.T / outputs, deliver(odd_part))]
    else:
        drawn = signs(1)
        labels, u = -drawn @ start.root.T, drawn @ start.left.T
        if kind in ("A", "B"):
            between, alpha = fluctuation_legs(decay, labels, late, early, early_odd)
            if kind == "A":
                value = kernel_fluctuation_a(neuron, between, alpha)
            else:
                value = kernel_fluctuation_b(neuron, probe_key, between, alpha, outputs)
            terms = [Product(u, deliver(value))]
        else:
            modes, moved = decay.pair(kind, late, odd), kind == "b2"
            value = first_change(neuron, probe_key, decay.U, modes, labels, outputs, moved=moved)
            terms = [Product(u, deliver(value))]
            mix_signs = jax.random.rademacher(mix_key, (rows, outputs, start.root.shape[1]), decay.t.dtype)
            residual = mix_signs @ start.root.T - decay.Y
            legs = tuple((w * residual) @ decay.U.T for w in modes)
            for left, right in first_change_of_start(neuron, probe_key, legs, outputs, moved=moved):
                terms.append(Product(bar(left), deliver(jnp.mean(right, axis=1, keepdims=True))))
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
