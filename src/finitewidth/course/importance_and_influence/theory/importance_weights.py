r"""What importance weights do to logistic regression without a penalty on separable data: less and less.

The loss is $\frac1n\sum_iw_i\log(1+e^{-z_i\cdot\theta})$ with $z_i=y_ix_i$. Gradient flow follows
$\theta(t)=\hat\theta\log t+\rho$ with the hard-margin solution $\hat\theta=\sum_i\alpha_iz_i$. On the
support vectors $\frac1nw_ie^{-z_i\cdot\rho}=\alpha_i$: weights shift $\rho$ by the solution of
$z_i\cdot\Delta\rho=\log w_i$ and leave $\hat\theta$ as it is. Directions differ by $C/\log t$.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import lambertw

from finitewidth._base.arrays import AnyArray
from finitewidth.course.implicit_bias.theory.max_margin import max_margin_of_rows
from finitewidth.course.implicit_bias.theory.separability import separated


class ImportanceEffect(NamedTuple):
    """The limit of logistic regression on separable data, and how weights are forgotten on the way to it."""

    direction: Float[np.ndarray, " d"]
    r"""$\hat\theta$, the shortest vector with $z_i\cdot\hat\theta\ge1$ at all points."""
    multipliers: Float[np.ndarray, " n"]
    r"""$\alpha_i$, zero off the support."""
    support: Int[np.ndarray, " d"]
    """Indices of the support vectors."""
    offset: Float[np.ndarray, " d"]
    r"""$\rho$ with weights."""
    plain_offset: Float[np.ndarray, " d"]
    r"""$\rho$ without weights."""

    @property
    def constant(self) -> float:
        r"""$C$: directions differ by about $C/\log t$. Zero if all support vectors weigh the same."""
        size = np.linalg.norm(self.direction)
        unit, shift = self.direction / size, self.offset - self.plain_offset
        return float(np.linalg.norm(shift - unit * (unit @ shift)) / size)

    def difference(self, log_time: float) -> float:
        """Distance of the two unit directions after gradient flow for the time exp(log_time)."""
        if not log_time > 0:
            raise ValueError(f"log_time must be positive, got {log_time!r}.")
        ends = [self.direction * log_time + rho for rho in (self.offset, self.plain_offset)]
        unit = [end / np.linalg.norm(end) for end in ends]
        return float(np.linalg.norm(unit[0] - unit[1]))

    def ridge_difference(self, log_inverse_ridge: float) -> float:
        r"""Distance of the unit directions that minimise the loss plus $\frac r2|\theta|^2$.

        The argument is log(1/r). The minimum is where flow would be at a time t with $t\log t=1/r$.
        """
        if not log_inverse_ridge > 1:
            raise ValueError(f"log_inverse_ridge must be larger than 1, got {log_inverse_ridge!r}.")
        # log t + log log t = log(1/r), that is log t = W(1/r); W of a huge number by its logarithm.
        log_time = _lambert(log_inverse_ridge)
        return self.difference(log_time)


def _lambert(log_argument: float) -> float:
    """W(exp(log_argument)): the solution of u + log u = log_argument."""
    if log_argument < 700:
        return float(np.real(lambertw(np.exp(log_argument))))
    u = log_argument
    for _ in range(20):
        u -= (u + np.log(u) - log_argument) / (1 + 1 / u)
    return u


def importance_effect(
    x: Float[AnyArray, "n d"], y: Float[AnyArray, " n"] | Int[AnyArray, " n"], weights: Float[AnyArray, " n"]
) -> ImportanceEffect:
    """How importance weights of separable points are forgotten in logistic regression.

    Parameters
    ----------
    x
        Inputs. There is no intercept: add a column of ones for one.
    y
        Labels -1 and 1.
    weights
        Importance of each point, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.importance_and_influence.theory import importance_effect
    >>> x = np.array([[2.0, 1.0], [1.0, -1.0], [-3.0, 0.5], [4.0, 4.0]])
    >>> found = importance_effect(x, np.array([1, 1, -1, 1]), np.array([20.0, 1.0, 1.0, 1.0]))
    >>> found.support.tolist(), round(found.constant, 3), round(found.difference(100.0), 4)
    ([0, 1], 1.797, 0.0179)
    """
    z, weights = _signed(x, y), np.asarray(weights, float)
    if weights.shape != (len(z),) or not ((weights > 0) & np.isfinite(weights)).all():
        raise ValueError(
            f"weights must be {len(z)} positive numbers, one per point, got shape {weights.shape}."
        )
    separated(z)
    found = max_margin_of_rows(z)
    support, active = found.support, z[found.support]
    if len(support) != z.shape[1] or np.linalg.cond(active) > 1e10:
        raise ValueError(
            f"the {len(support)} support vectors are no basis of the {z.shape[1]} dimensions: weights of "
            "other points act at the same order, and no constant belongs to the support vectors alone."
        )
    shift = np.linalg.solve(active, np.log(weights[support]))
    return ImportanceEffect(found.weights, found.multipliers, support, found.offset + shift, found.offset)


def _signed(x: Float[AnyArray, "n d"], y: AnyArray) -> Float[np.ndarray, "n d"]:
    x, y = np.asarray(x, float), np.asarray(y)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        raise ValueError(f"x must be finite numbers of shape (points, features), got shape {x.shape}.")
    if y.shape != (len(x),) or not np.isin(y, (-1, 1)).all():
        raise ValueError(
            f"y must be {len(x)} labels -1 or 1, got {np.unique(y)[:5].tolist()} of shape {y.shape}."
        )
    return x * y[:, None]
