"""Which depth, widths and prior variance of a deep linear network explain the labels best."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from finitewidth._base.checks import is_number
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.methods.bayesian.deep_linear.interpolation import interpolate
from finitewidth.prediction.methods.bayesian.deep_linear.noisy import noisy_posterior, with_noise
from finitewidth.prediction.methods.bayesian.deep_linear.scales import ScaleLattice
from finitewidth.prediction.selection.model_comparison import ModelComparison, ranked
from finitewidth.statistics.exact.deep_linear import ChiSquareProduct, linear_network
from finitewidth.statistics.wide.inputs import ArrayLike

# The prior variance is looked for this many powers of e to either side.
_REACH = 12.0


class PriorChoice(NamedTuple):
    """The prior variance S of largest evidence, the product of C_W over all layers.

    `C_W` is the same in every layer, and `log_evidence` is what it reaches.
    """

    prior_variance: float
    C_W: float
    log_evidence: float


def best_prior_variance(
    net: Layer, x: ArrayLike, y: ArrayLike, noise: float | int = 0.0, *, constant: bool = False
) -> PriorChoice:
    r"""Scale the prior so that the labels are most probable.

    Without noise and with many points the best S is $|\theta_*|^2n_0/P$ times $e^{A-\sum_ln_l^{-2}/A}$,
    $A=\sum_l1/n_l$: the same for all networks that are wide for their depth. The evidence is flat around it,
    with the width $\sqrt{2/P+2A}$ in log S.

    Parameters
    ----------
    net
        Depth and widths; its own C_W is not used.
    x, y, noise, constant
        As in `interpolate` and `noisy_posterior`.
    """
    stack = linear_network(net)
    law = _posterior(net, x, y, noise, constant)
    data, hidden = law.data, ChiSquareProduct(stack.hidden)
    if not data.labels.any():
        raise ValueError(
            "y is zero, and the smaller the prior variance the more probable: give C_W yourself."
        )

    lattice = ScaleLattice(hidden, data.points)

    def log_evidence(log_S: float) -> float:
        if noise:
            return with_noise(float(np.exp(log_S)), lattice, data, float(noise)).log_evidence
        c = data.features * float(law.weights @ law.weights) / 2 * np.exp(-log_S)
        volume = 2 * np.log(data.d).sum() + data.points * (np.log(2 * np.pi / data.features) + log_S)
        return hidden.log_average(-data.points / 2, float(c)) - float(volume) / 2

    square = float(np.sum((data.labels / data.d) ** 2))
    middle = np.log(square * data.features / len(data.d)) - hidden.mean_log / 2
    found = minimize_scalar(
        lambda log_S: -log_evidence(log_S), bounds=(middle - _REACH, middle + _REACH), method="bounded",
        options={"xatol": 1e-6},
    )  # fmt: skip
    S = float(np.exp(found.x))
    return PriorChoice(S, S ** (1 / (len(stack.hidden) + 1)), -float(found.fun))


def compare_linear_networks(
    nets: Mapping[str, Layer],
    x: ArrayLike,
    y: ArrayLike,
    noise: float | int = 0.0,
    *,
    best_prior: bool = False,
    constant: bool = False,
) -> ModelComparison:
    """Rank deep linear networks by their exact evidence at finite width and depth.

    Parameters
    ----------
    nets
        Networks by name.
    x, y, noise, constant
        As in `interpolate` and `noisy_posterior`.
    best_prior
        Whether each network is given the prior variance that suits it best.
    """
    if not nets:
        raise ValueError("nets is empty: give at least one named network.")
    of = lambda net: (
        best_prior_variance(net, x, y, noise, constant=constant).log_evidence
        if best_prior
        else _posterior(net, x, y, noise, constant).log_evidence
    )
    return ranked({name: of(net) for name, net in nets.items()})


def _posterior(net: Layer, x: ArrayLike, y: ArrayLike, noise: float | int, constant: bool):
    if not (is_number(noise) and noise >= 0):
        raise ValueError(f"noise must be a variance, zero or more, got {noise!r}.")
    if noise:
        return noisy_posterior(net, x, y, float(noise), constant=constant)
    return interpolate(net, x, y, constant=constant)
