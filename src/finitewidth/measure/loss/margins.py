r"""The margin of a trained classifier, and how near its weights are to a point where the margin is
stationary.

For a model that is homogeneous of order L in its weights, $f(c\theta)=c^Lf(\theta)$, what counts is the
normalised margin $\min_iy_if(x_i)/|\theta|^L$. Its stationary points, where training on exponential tails
can end, are

$$\theta=\sum_i\lambda_iy_i\nabla f(x_i),\qquad\lambda_i\ge0,\qquad\lambda_i(y_if(x_i)-\min_jy_jf(x_j))=0 .$$
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from finitewidth.measure.specimen import Specimen

# By how much the order of homogeneity may differ between points, and the pull that makes a support vector.
_SPREAD = 1e-3
_SHARE = 0.01


class Margins(NamedTuple):
    r"""Margins of a model with one output, and its distance from stationarity.

    Attributes
    ----------
    values
        $y_if(x_i)$ of all points.
    order
        $\theta\cdot\nabla f/f$, the order of homogeneity, the mean over the points.
    order_spread
        Its largest distance from the mean: zero for a homogeneous model.
    normalised
        The smallest value over $|\theta|^{order}$.
    multipliers
        $\lambda_i\propto e^{-y_if(x_i)}$, with which the exponential loss pulls at each point, so that
        $\sum_i\lambda_iy_i\nabla f(x_i)$ comes as near to $\theta/|\theta|$ as it can.
    alignment
        The cosine between both, between the weights and minus the gradient of the exponential loss.
    slackness
        $\sum_i\lambda_i(y_if_i-\min)/\sum_i\lambda_iy_if_i$: what the points that are not nearest still hold.
    """

    values: Float[np.ndarray, " points"]
    order: float
    order_spread: float
    normalised: float
    multipliers: Float[np.ndarray, " points"]
    alignment: float
    slackness: float

    @property
    def smallest(self) -> float:
        """The smallest margin; negative if a point is on the wrong side."""
        return float(self.values.min())

    @property
    def residual(self) -> float:
        r"""The KKT residual $|\theta/|\theta|-\sum_i\lambda_iy_i\nabla f(x_i)|$: 0 at a stationary point
        of the margin."""
        return float(np.sqrt(max(0.0, 1 - self.alignment**2))) if self.alignment > 0 else 1.0

    @property
    def support(self) -> Int[np.ndarray, " support"]:
        """Rows of the points with at least a hundredth of all multipliers, the strongest first."""
        strongest = np.argsort(-self.multipliers, kind="stable")
        return strongest[self.multipliers[strongest] > _SHARE * self.multipliers.sum()]


def margins(specimen: Specimen) -> Margins:
    """Margins of a two-class model with one output, and how far its weights are from stationarity.

    Parameters
    ----------
    specimen
        A model with labels of two values, the larger of which counts as +1.
    """
    y = specimen.y
    if y is None or len(classes := np.unique(y)) != 2:
        raise ValueError(
            "margins need labels of two classes: make the specimen with y of two different values."
        )
    outputs = specimen.outputs().astype(float)
    if outputs.shape[1] != 1:
        raise ValueError(f"margins need a model with one output; this one has {outputs.shape[1]}.")
    signs = np.where(y.ravel() == classes[1], 1.0, -1.0)
    values, weights = signs * outputs[:, 0], specimen.weights.astype(float)
    rows = signs[:, None] * specimen.jacobian()[:, 0].astype(float)
    orders = rows @ weights / np.where(values == 0, np.nan, values)
    order = float(np.nanmean(orders))
    spread = float(np.nanmax(np.abs(orders - order)))
    if spread > _SPREAD * max(1.0, abs(order)):
        raise ValueError(
            f"the model is not homogeneous in its weights: theta.df/f runs from {np.nanmin(orders):.3g} to "
            f"{np.nanmax(orders):.3g} over the points; biases and smooth activations break it."
        )
    norm = float(np.linalg.norm(weights))
    pulls = np.exp(values.min() - values)
    pull = pulls @ rows
    size = float(np.linalg.norm(pull))
    alignment = float(weights @ pull) / (norm * size)
    multipliers = max(alignment, 0.0) / size * pulls
    return Margins(
        values=values,
        order=order,
        order_spread=spread,
        normalised=float(values.min()) / norm**order,
        multipliers=multipliers,
        alignment=alignment,
        slackness=float(pulls @ (values - values.min()) / (pulls @ values)) if values.min() > 0 else 1.0,
    )
