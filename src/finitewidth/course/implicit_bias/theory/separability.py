r"""Whether a hyperplane separates two classes, with a certificate either way, by one linear programme.

$$\max_{w,t}\;t\quad\text{with}\quad y_iw\cdot x_i\ge t|x_i|,\;|w_j|\le1 .$$

If t > 0 the weights are the certificate. Otherwise the dual has shares $c_i\ge0$, $\sum_ic_i=1$, with
$\sum_ic_iy_ix_i/|x_i|=0$: no w can make all $y_iw\cdot x_i$ positive, since their mean with these shares
is zero.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers

# What the solver leaves of a sum that is zero.
_ZERO = 1e-7


class Separability(NamedTuple):
    """Whether two classes are separable by a hyperplane, and why.

    Attributes
    ----------
    separable
        Whether some weights put every point on the side of its class, none on the plane.
    weights
        The certificate of separable classes: weights with all y_i w.x_i positive. Zero otherwise.
    margin
        The smallest y_i w.x_i / (|w| |x_i|) of these weights; zero otherwise.
    shares
        The certificate of inseparable classes: shares of the points, with a sum of one, for which
        sum_i shares_i y_i x_i / |x_i| is zero. Zero otherwise.
    """

    separable: bool
    weights: Float[np.ndarray, " features"]
    margin: float
    shares: Float[np.ndarray, " train"]

    @property
    def conflict(self) -> Int[np.ndarray, " rows"]:
        """The rows of points that together rule out every hyperplane, the heaviest first."""
        heaviest = np.argsort(-self.shares, kind="stable")
        return heaviest[self.shares[heaviest] > _ZERO]

    def sentence(self) -> str:
        """What was found, in words."""
        if self.separable:
            return f"the classes are separable: some hyperplane leaves a margin of {self.margin:.3g} |x|."
        rows = ", ".join(map(str, self.conflict[:5]))
        more = ", ..." if len(self.conflict) > 5 else ""
        return (
            f"the classes are not separable by a hyperplane: {len(self.conflict)} points (rows {rows}{more}) "
            "have positive shares c with sum c_i y_i x_i/|x_i| = 0, so no w has y_i w.x_i > 0 at all of them."
        )


def separability(x: Float[AnyArray, "train features"], y: Any, *, bias: bool = False) -> Separability:
    """Decide by a linear programme whether a hyperplane separates two classes.

    Parameters
    ----------
    x
        One point in each row.
    y
        Two classes: any two values, the larger of which counts as +1.
    bias
        Whether the hyperplane may miss the origin: a feature of ones is added. Otherwise it passes through.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0], [1.0], [2.0]])
    >>> separability(points, [0, 1, 0], bias=True).conflict.tolist()
    [1, 2, 0]
    >>> separability(points, [0, 1, 1], bias=True).separable
    True
    """
    x, signs = as_two_classes(x, y, bias=bias)
    return _decided(x * signs[:, None])


def as_two_classes(x: Any, y: Any, *, bias: bool) -> tuple[np.ndarray, Float[np.ndarray, " train"]]:
    """Inputs, with a feature of ones if there is a bias, and labels -1 and 1."""
    x = np.asarray(as_numbers("x", x), float)
    labels = np.asarray(y)
    if x.ndim != 2 or labels.shape != x.shape[:1] or not len(x):
        raise ValueError(
            f"x has shape {x.shape} and y {labels.shape}; they must be (points, features) and (points,)."
        )
    if not np.isfinite(x).all():
        raise ValueError("x holds NaN or infinite values.")
    classes = np.unique(labels)
    if len(classes) != 2:
        raise ValueError(f"y must hold two classes, got {len(classes)}: {', '.join(map(str, classes[:5]))}.")
    if bias:
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    if not (zero := np.linalg.norm(x, axis=1) > 0).all():
        raise ValueError(
            f"row {int(np.argmin(zero))} of x is zero: without a bias it lies on every hyperplane; use "
            "bias=True."
        )
    return x, np.where(labels == classes[1], 1.0, -1.0)


def separated(signed: Float[np.ndarray, "train features"]) -> None:
    """Refuse classes that no hyperplane separates; rows are y_i x_i."""
    found = _decided(signed)
    if not found.separable:
        raise ValueError(found.sentence())


def _decided(signed: Float[np.ndarray, "train features"]) -> Separability:
    n, d = signed.shape
    rows = signed / np.linalg.norm(signed, axis=1, keepdims=True)
    found = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.concatenate([-rows, np.ones((n, 1))], axis=1),
        b_ub=np.zeros(n),
        bounds=[(-1, 1)] * d + [(None, 1)],
        method="highs",
    )
    weights = np.asarray(found.x[:d])
    norm = float(np.linalg.norm(weights))
    margin = float((rows @ weights).min()) / norm if norm > 0 else 0.0
    if margin > _ZERO:
        return Separability(True, weights / norm, margin, np.zeros(n))
    shares = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return Separability(False, np.zeros(d), 0.0, shares / shares.sum())
