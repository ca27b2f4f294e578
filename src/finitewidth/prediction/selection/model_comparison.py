"""Which network explains the data best: evidence over depths, activations and hyperparameters."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.methods.bayesian.posterior import evidence
from finitewidth.prediction.problem.data import as_targets
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs

# Where a hyperparameter that starts at zero enters the search, and how far the search may go.
_SMALLEST, _LARGEST = 1e-6, 1e6


class ModelComparison(eqx.Module):
    """Networks in order of falling evidence.

    `probability` is the posterior probability of each under equal prior odds.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    log_evidence: Float[np.ndarray, " models"]
    probability: Float[np.ndarray, " models"]

    @property
    def best(self) -> str:
        """The name with the largest evidence."""
        return self.names[0]


class EvidenceGradient(eqx.Module):
    """Log evidence and its derivatives, C_b and C_W layer by layer."""

    log_evidence: Float[Array, ""]
    C_b: Float[Array, " depth"]
    C_W: Float[Array, " depth"]
    noise: Float[Array, ""]


class TunedPrior(eqx.Module):
    """The network and the noise of largest evidence that the search found."""

    net: MLP
    noise: float = eqx.field(static=True)
    log_evidence: float = eqx.field(static=True)


def compare_models(
    nets: Mapping[str, Layer], x: ArrayLike, y: ArrayLike, noise: float | int | Mapping[str, float]
) -> ModelComparison:
    """Rank networks by the evidence of the data; one noise for all, or one for each name."""
    if not nets:
        raise ValueError("nets is empty: give at least one named network.")
    noises = noise if isinstance(noise, Mapping) else dict.fromkeys(nets, noise)
    missing = [name for name in nets if name not in noises]
    if missing:
        raise ValueError(f"noise has no entry for {', '.join(missing)}.")
    return ranked({name: float(evidence(net, x, y, noises[name])) for name, net in nets.items()})


def ranked(log_evidence: Mapping[str, float]) -> ModelComparison:
    """Models in order of falling evidence."""
    names = tuple(sorted(log_evidence, key=lambda name: -log_evidence[name]))
    values = np.array([log_evidence[name] for name in names])
    odds = np.exp(values - values[0])
    return ModelComparison(names, values, odds / odds.sum())


def evidence_gradient(net: MLP, x: ArrayLike, y: ArrayLike, noise: float | int) -> EvidenceGradient:
    """Log evidence and its gradient in every layer's C_b and C_W and in the noise."""

    def log_evidence(variables):
        return evidence(_with_variances(net, variables[0], variables[1]), x, y, variables[2])

    value, gradient = jax.value_and_grad(log_evidence)((net.C_b, net.C_W, jnp.asarray(noise, dtype=float)))
    return EvidenceGradient(value, *gradient)


def maximise_evidence(net: MLP, x: ArrayLike, y: ArrayLike, noise: float | int = 0.1) -> TunedPrior:
    """Tune one C_b, one C_W for all layers and the noise by gradient ascent on the evidence.

    Parameters
    ----------
    net
        Depth, activation and where to start: the first layer's C_b and C_W.
    x, y
        Training inputs and targets.
    noise
        Where the variance of the observation noise starts.
    """
    x = as_inputs("x", x, net)
    y = as_targets(y, len(x), x.dtype, "y")
    ones = jnp.ones(net.depth)

    def prior(logs: Float[Array, " 3"]) -> MLP:
        C_b, C_W, _ = jnp.exp(logs)
        return _with_variances(net, C_b * ones, C_W * ones)

    def loss(logs: Float[Array, " 3"], x: Array, y: Array) -> Float[Array, ""]:
        return -evidence(prior(logs), x, y, jnp.exp(logs[2]))

    start = np.log(np.clip([float(net.C_b[0]), float(net.C_W[0]), noise], _SMALLEST, _LARGEST))
    bounds = [(np.log(_SMALLEST), np.log(_LARGEST))] * 3
    objective = jax.jit(jax.value_and_grad(loss))
    found = minimize(
        lambda logs: tuple(np.asarray(part, dtype=float) for part in objective(jnp.asarray(logs), x, y)),
        start,
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
    )
    tuned = jnp.asarray(found.x)
    return TunedPrior(prior(tuned), float(jnp.exp(tuned[2])), -float(found.fun))


def _with_variances(net: MLP, C_b: Float[Array, " depth"], C_W: Float[Array, " depth"]) -> MLP:
    return eqx.tree_at(lambda n: (n.C_b, n.C_W), net, (C_b, C_W))
