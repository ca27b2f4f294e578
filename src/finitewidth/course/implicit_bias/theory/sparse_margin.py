r"""The margin in the sum of sizes, which networks of squares make large.

$$b=\arg\min\sum_j|\beta_j|\;\text{with}\;y_i\beta\cdot x_i\ge1 .$$

A model $\beta=u^2-v^2$ is homogeneous in (u, v), and a stationary point of its margin in $|u|^2+|v|^2$ is
this b, not the hard-margin direction of $|\beta|_2$. Unused features fall behind only like
$(\log t)^{-(1-c)}$, where c is the largest $|\sum_ia_iy_ix_{ij}|$ among them and $a_i\ge0$ the dual solution.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from finitewidth._base.arrays import AnyArray
from finitewidth.course.implicit_bias.theory.separability import as_two_classes, separated


class SparseMargin(NamedTuple):
    """The weights with margins at least one and the least sum of sizes.

    Attributes
    ----------
    weights
        b, the bias last if there is one.
    multipliers
        One for each point; their sum is the sum of sizes.
    slopes
        sum_i a_i y_i x_ij of every feature: its sign where b_j is not zero, at most one in size elsewhere.
    """

    weights: Float[np.ndarray, " features"]
    multipliers: Float[np.ndarray, " train"]
    slopes: Float[np.ndarray, " features"]

    @property
    def margin(self) -> float:
        """The largest possible min_i y_i beta.x_i over the sum of sizes."""
        return 1 / float(np.abs(self.weights).sum())


def sparse_margin(x: Float[AnyArray, "train features"], y: Any, *, bias: bool = False) -> SparseMargin:
    """The margin in the sum of sizes, by a linear programme; arguments as for `max_margin`.

    Examples
    --------
    >>> import numpy as np
    >>> sparse_margin(np.array([[1.0, 2.0], [-2.0, -1.0], [-1.0, -2.0]]), [1, 0, 0]).weights.round(6).tolist()
    [0.333333, 0.333333]
    """
    x, signs = as_two_classes(x, y, bias=bias)
    rows = x * signs[:, None]
    separated(rows)
    found: Any = linprog(
        np.ones(2 * rows.shape[1]),
        A_ub=np.concatenate([-rows, rows], axis=1),
        b_ub=-np.ones(len(rows)),
        method="highs",
    )
    positive, negative = np.split(found.x, 2)
    a = -np.asarray(found.ineqlin.marginals)
    return SparseMargin(positive - negative, a, a @ rows)
