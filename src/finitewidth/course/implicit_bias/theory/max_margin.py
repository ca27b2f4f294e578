r"""Where training on separable classes goes: the hard-margin direction, how fast, and from which points.

$$\hat w=\arg\min|w|\;\text{with}\;y_iw\cdot x_i\ge1,\qquad\hat w=\sum_{i\in S}a_iy_ix_i,\quad a_i>0,\quad
|\hat w|^2=\sum_ia_i=1/\gamma^2 .$$

Gradient flow on the mean exponential or logistic loss of n points has $w(t)=\hat w\log t+\tilde w+o(1)$ with
$e^{-y_ix_i\cdot\tilde w}=na_i$ at the support vectors, the points of S. What is left out decays like
$t^{-\min(1,\lambda,g)}$, where $\lambda$ is the smallest positive eigenvalue of $\sum_ia_ix_ix_i^T$ and
$1+g$ the smallest margin outside S. Gradient descent has $\eta$ times the number of steps for t.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

from finitewidth._base.arrays import AnyArray
from finitewidth.course.implicit_bias.theory.separability import as_two_classes, separated

# Multipliers below this share of the largest, and margins above one by this much, count as zero.
_ZERO = 1e-9
# Digits of the limit that are reached at the horizon: e^-16 is 1e-7.
_E_FOLDS = 16.0


class MaxMargin(NamedTuple):
    r"""The hard-margin solution of two classes, and the law of gradient flow towards it.

    Attributes
    ----------
    weights
        $\hat w$, the shortest with all margins at least one; the bias last, if there is one.
    multipliers
        $a_i\ge0$ of all points.
    margins
        $y_i\hat w\cdot x_i$ of all points.
    signed
        Rows $y_ix_i$, with the feature of ones if there is a bias.
    """

    weights: Float[np.ndarray, " features"]
    multipliers: Float[np.ndarray, " train"]
    margins: Float[np.ndarray, " train"]
    signed: Float[np.ndarray, "train features"]

    @property
    def support(self) -> Int[np.ndarray, " support"]:
        """Rows of the support vectors: the points whose multipliers are positive."""
        return np.flatnonzero(self.multipliers > 0)

    @property
    def margin(self) -> float:
        r"""$\gamma$, the distance of the nearest points from the plane."""
        return 1 / float(np.linalg.norm(self.weights))

    @property
    def direction(self) -> Float[np.ndarray, " features"]:
        r"""$\hat w/|\hat w|$."""
        return self.weights * self.margin

    @property
    def gap(self) -> float:
        """How far the next margin lies above one; infinite if every point is a support vector."""
        others = np.delete(self.margins, self.support)
        return float(others.min() - 1) if len(others) else math.inf

    @property
    def relaxation(self) -> float:
        r"""$\lambda$, the smallest positive eigenvalue of $\sum_ia_ix_ix_i^T$."""
        rows = np.sqrt(self.multipliers[self.support])[:, None] * self.signed[self.support]
        values = np.linalg.svd(rows, compute_uv=False) ** 2
        return float(values[values > _ZERO * values[0]].min())

    @property
    def spans(self) -> bool:
        """Whether the support vectors span all features, so that no start is remembered."""
        return bool(np.linalg.matrix_rank(self.signed[self.support]) == len(self.weights))

    @property
    def horizon(self) -> float:
        r"""$\log t$ from which the law holds to about seven digits."""
        slowest = min(1.0, self.relaxation, self.gap)
        return math.inf if slowest <= 0 else _E_FOLDS / slowest + 2 * max(0.0, -math.log(self.margin))

    @property
    def offset(self) -> Float[np.ndarray, " features"]:
        r"""$\tilde w$ of the mean loss, its part in the span of the support vectors.

        The other part depends on the start and on all other points; it is zero if they span all features.
        """
        rows = self.signed[self.support]
        labels = -np.log(len(self.signed) * self.multipliers[self.support])
        return np.linalg.lstsq(rows, labels, rcond=None)[0]

    @property
    def direction_constant(self) -> float:
        r"""What the distance of $w/|w|$ from its limit is of $1/\log t$: $|\tilde w_\perp|/|\hat w|$."""
        across = self.offset - self.direction * (self.direction @ self.offset)
        return float(np.linalg.norm(across)) * self.margin

    def weights_at(self, log_time: float) -> Float[np.ndarray, " features"]:
        r"""$\hat w\log t+\tilde w$."""
        return self.weights * log_time + self.offset

    def loss_at(self, log_time: float) -> float:
        r"""The mean loss, $|\hat w|^2/t$."""
        return math.exp(-log_time) / self.margin**2

    def angle_at(self, log_time: float) -> float:
        """The angle between the weights and their limit."""
        across = self.direction_constant / self.margin
        return math.atan2(across, log_time / self.margin + float(self.direction @ self.offset))


def max_margin(x: Float[AnyArray, "train features"], y: Any, *, bias: bool = False) -> MaxMargin:
    """The hard-margin solution of two classes, exact to rounding.

    The least-distance problem is solved by non-negative least squares (Lawson and Hanson), which ends with
    the set of support vectors; their equations are then solved once more by themselves. Classes that no
    hyperplane separates are refused with the points that prove it.

    Parameters
    ----------
    x
        One point in each row.
    y
        Two classes: any two values, the larger of which counts as +1.
    bias
        Whether a bias is trained along with the weights. Gradient descent makes |w|^2 + b^2 small, not |w|^2
        alone as a support vector machine with a free intercept does.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[1.0, 1.0], [2.0, 0.0], [-1.0, -1.0], [-3.0, 1.0]])
    >>> found = max_margin(points, [1, 1, 0, 0])
    >>> found.support.tolist(), round(found.margin, 6), np.round(found.weights, 6).tolist()
    ([0, 2], 1.414214, [0.5, 0.5])
    """
    x, signs = as_two_classes(x, y, bias=bias)
    signed = x * signs[:, None]
    separated(signed)
    return max_margin_of_rows(signed)


def max_margin_of_rows(signed: Float[np.ndarray, "train features"]) -> MaxMargin:
    """The same from rows y_i x_i of classes that are known to be separable."""
    size = float(np.linalg.norm(signed, axis=1).max())
    rows = signed / size
    target = np.append(np.zeros(rows.shape[1]), 1.0)
    found, _ = nnls(np.append(rows, np.ones((len(rows), 1)), axis=1).T, target, maxiter=30 * len(rows))
    active = np.flatnonzero(found > _ZERO * found.max())
    solved = np.linalg.lstsq(rows[active] @ rows[active].T, np.ones(len(active)), rcond=None)[0]
    multipliers = np.zeros(len(rows))
    multipliers[active] = np.where(solved > _ZERO * np.abs(solved).max(), solved, 0.0)
    weights = multipliers @ rows
    margins = rows @ weights
    if margins.min() < 1 - 1e-6:
        raise ValueError(
            f"the margin of these {len(rows)} points is too small for 64 bits: the solution violates it by "
            f"{1 - margins.min():.2g}."
        )
    return MaxMargin(weights / size, multipliers / size**2, margins, signed)
