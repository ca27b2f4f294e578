"""Which of the methods to trust at the network's width, and why."""

from typing import TYPE_CHECKING, Literal

import equinox as eqx
import numpy as np

from finitewidth.architecture.networks import activations_of, hidden_widths
from finitewidth.expectations.four_factors.derivative_moments import is_smooth
from finitewidth.prediction.law.expansion_range import LARGEST_RATIO
from finitewidth.prediction.law.methods import BayesianInference

if TYPE_CHECKING:
    from finitewidth.prediction.law.distribution import TrainedDistribution
    from finitewidth.prediction.law.provenance import Provenance

Trust = Literal["yes", "partly", "no", "unknown"]
# The largest shift at which networks were compared with the mean field, and followed it; see the guide.
_LARGEST_MEAN_FIELD = 0.05
# A standard error that leaves the shift of the mean to be seen.
_SEEN = 0.5


class TrustedRange(eqx.Module):
    """How a law was computed, and whether that can be trusted at the network's width.

    Attributes
    ----------
    method
        How the law was computed.
    width
        Smallest hidden width; None for a network without hidden layers.
    shift
        What finite width adds to the mean, relative to the mean (root mean squares); None at infinite width.
    shift_error
        Standard error of that from sampling, in the same units.
    trusted
        "yes", "partly" (a hint of sign and size), "no", or "unknown" where finite width was not looked at.
    advice
        What to ask for instead, or why nothing else is needed.
    """

    method: str = eqx.field(static=True)
    width: int | None = eqx.field(static=True)
    shift: float | None = eqx.field(static=True)
    shift_error: float | None = eqx.field(static=True)
    trusted: Trust = eqx.field(static=True)
    advice: str = eqx.field(static=True)

    @property
    def words(self) -> str:
        """One paragraph for a report."""
        size = ""
        if self.shift is not None:
            error = f" +- {self.shift_error:.1g}" if self.shift_error else ""
            size = f" Finite width moves the mean by {self.shift:.2g}{error} of its size."
        at = "" if self.width is None else f", at width {self.width}"
        return f"Computed by {self.method}{at}.{size} Trust it: {self.trusted}. {self.advice}"

    def __str__(self) -> str:
        return self.words


def range_of(law: "TrainedDistribution") -> TrustedRange:
    """The range of a law, from what it holds; nothing is computed anew."""
    origin = law.provenance
    if origin is None:
        raise AttributeError(
            "this law does not say how it was computed: ask a law that predict returned, outside of jax.jit, "
            "jax.grad and jax.vmap."
        )
    widths = hidden_widths(origin.problem.net, origin.problem.x_train.shape[1:])
    width = min(widths) if widths else None
    shift = error = None
    if law.correction is not None:
        size = _rms(law.mean - law.correction.mean)
        shift = _rms(law.correction.mean) / size if size > 0 else np.inf
        error = _rms(law.correction.mean_error) / size if size > 0 else np.inf
    trusted, advice = _verdict(law, origin, width, shift, error)
    return TrustedRange(_name(origin), width, shift, error, trusted, advice)


def _name(origin: "Provenance") -> str:
    if isinstance(origin.algorithm, BayesianInference):
        finite = origin.algorithm.width == "finite"
        return "one scale per hidden layer" if finite else "conditioning at infinite width"
    if origin.method is not None and not origin.method.expands:
        return type(origin.method).__name__
    if origin.order == 0:
        return "infinite width"
    return f"order {origin.order} in 1/width"


def _verdict(
    law: "TrainedDistribution",
    origin: "Provenance",
    width: int | None,
    shift: float | None,
    error: float | None,
) -> tuple[Trust, str]:
    if width is None:
        return "yes", "The network has no hidden layer, so its law is the same at any width."
    if isinstance(origin.algorithm, BayesianInference):
        return _of_posterior(origin)
    if shift is None or error is None:
        return "unknown", f"Ask for {_methods(origin)} to see what finite width changes."
    name = _name(origin)
    if name == "TrainedNetworks":
        if error <= _SEEN * shift:
            return "yes", "The estimate is unbiased at this width; its standard error is all that is missing."
        return (
            "partly",
            "The estimate is unbiased, but its standard error hides the shift: train more networks.",
        )
    if name == "MeanField":
        if shift > _LARGEST_MEAN_FIELD:
            return (
                "partly",
                "The shift is beyond what networks were compared at: check with TrainedNetworks(k).",
            )
        if error > _SEEN * shift:
            return "partly", "Its standard error hides the shift of the mean: sample more neurons."
        return "yes", "Each neuron moves as far as it does in a network; no expansion is made in its motion."
    validity = law.correction.validity if law.correction is not None else None
    small = validity.small if validity is not None else shift <= LARGEST_RATIO
    if validity is not None and width >= validity.trusted_width:
        return "yes", "The expansion is small here: the next order is a tenth or a fifth of the correction."
    if small:
        return "partly", f"Take its sign and size as a hint; {_methods(origin, False)} gives more."
    return "no", f"The expansion in 1/width is not small on this data: use {_methods(origin, False)}."


def _of_posterior(origin: "Provenance") -> tuple[Trust, str]:
    finite = isinstance(origin.algorithm, BayesianInference) and origin.algorithm.width == "finite"
    linear = {activation.name for activation in activations_of(origin.problem.net)} <= {"linear"}
    if not finite:
        return "unknown", 'BayesianInference(noise, width="finite") says what finite width changes.'
    if linear:
        return "yes", "For linear networks with one output the mixture over scales is exact."
    return (
        "partly",
        "The spread is good at any width; the scales are only a part of the shift of the mean, because the "
        "data also turn the features of a nonlinear network.",
    )


def _methods(origin: "Provenance", with_order: bool = True) -> str:
    """Methods that can be asked for, cheapest first."""
    net, outputs = origin.problem.net, origin.problem.y.shape[1]
    smooth = all(is_smooth(activation.function) for activation in activations_of(net))
    widths = hidden_widths(net, origin.problem.x_train.shape[1:])
    converged = getattr(origin.algorithm, "converged", False)
    found = []
    if with_order and (smooth or len(widths) == 1):
        found.append("order=1" if smooth else 'order="1/2"')
    if smooth and converged and origin.ridge > 0 and len(widths) == 1 and outputs == 1:
        found.append("method=MeanField()")
    return " or ".join([*found, "method=TrainedNetworks(k)"])


def _rms(values: object) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(values, dtype=float)))))
