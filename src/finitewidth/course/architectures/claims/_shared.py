"""What claims about wide limits share: networks of two widths, their limit, and the scatter of kernels."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from finitewidth.course._lab.claim import Checks, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import Estimate, combined, propagated, sample_mean, stacked

# The second width over the first.
GROWTH = 6
# Weights of both widths under which errors of order 1/width cancel.
_TO_INFINITY = (-1 / (GROWTH - 1), GROWTH / (GROWTH - 1))

Draws = Sequence[Float[np.ndarray, "draws n n"]]


def limits_and_scatter(drawn: Mapping[str, Draws]) -> dict[str, Estimate]:
    """Mean kernels extrapolated from both widths, and the exponent of the width in the scatter of the NTK.

    The scatter is the variance of the logarithms of the NTK's diagonal, of which the next order in 1/width
    and the tails are much smaller than those of the NTK itself.
    """
    found = {
        name: combined(_TO_INFINITY, [sample_mean(each) for each in widths]) for name, widths in drawn.items()
    }
    scatter = stacked([_scatter(each) for each in drawn["ntk"]])
    slope = propagated(lambda sizes: np.log(sizes[1] / sizes[0]) / np.log(GROWTH), scatter)
    return {**found, "scatter": scatter, "exponent": slope}


def _scatter(ntk: Float[np.ndarray, "draws n n"]) -> Estimate:
    own = np.log(np.einsum("saa->sa", ntk).astype(float))
    return sample_mean(np.sum((own - own.mean(axis=0)) ** 2, axis=1))


def scatter_check(predicted: Prediction, measured: Measurement, next_order: float) -> Checks:
    """The exponent of the width in the variance of log NTK."""
    yield absolute_error(
        "exponent of the width in Var(log NTK)",
        predicted["exponent"],
        measured["exponent"],
        next_order,
        "the next order in 1/width",
    )
