r"""Diagonal networks: two layers, one path for each feature, and the penalty that training implies.

$\beta=\theta_+^2-\theta_-^2$ is linear regression with weights that are differences of squares. Gradient
flow on $\frac12|X\beta-y|^2$ from $\theta_\pm=\alpha\theta_0$ keeps every product $\theta_+\theta_-$, so that

$$\beta(t)=2\alpha^2\theta_0^2\sinh\Big(-4X^T\!\int_0^tr\Big),\qquad r=X\beta-y,$$

and it ends at the interpolator with the least
$Q(\beta)=\sum_i\alpha^2\theta_{0i}^2\,q(\beta_i/\alpha^2\theta_{0i}^2)$, the `HyperbolicEntropy`. A small
start selects few features, a large one short weights.
"""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import solve_ivp
from scipy.optimize import linprog

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive, is_number
from finitewidth.course.implicit_bias.theory.interpolators import Limit, equations, mirror_limit
from finitewidth.course.implicit_bias.theory.potentials import HyperbolicEntropy, Quadratic, Scale, Weights

_ACTIVE = 1e-9
_FLOW, _ARRIVED = 1e-11, 1e-9


class LeastSum(NamedTuple):
    r"""The interpolator with the least $\sum_i|\beta_i|$, and its dual.

    Attributes
    ----------
    weights
        $b$.
    multipliers
        $\nu$, one for each point, with $|x_i\cdot\nu|\le1$ for every column of X and
        $x_i\cdot\nu=\mathrm{sign}(b_i)$ where $b_i$ is not zero.
    slopes
        $x_i\cdot\nu$ of all features.
    """

    weights: Weights
    multipliers: Float[np.ndarray, " train"]
    slopes: Weights

    @property
    def active(self) -> Bool[np.ndarray, " features"]:
        """Features that are used."""
        return np.abs(self.weights) > _ACTIVE * np.abs(self.weights).max()

    @property
    def slack(self) -> float:
        r"""One minus the largest $|x_i\cdot\nu|$ of unused features; zero if $b$ is not unique."""
        return float(1 - np.abs(self.slopes[~self.active]).max(initial=0.0))


class DiagonalNetwork(eqx.Module):
    r"""The network $\beta=\theta_+^2-\theta_-^2$ that starts at $\theta_\pm=\alpha\theta_0$.

    Parameters
    ----------
    alpha
        Scale of the start.
    theta0
        Its shape: positive numbers, one for each feature, or one for all.
    """

    alpha: float = eqx.field(static=True, converter=lambda value: float(value) if is_number(value) else value)
    theta0: Scale = 1.0

    def __check_init__(self):
        check_positive("alpha", self.alpha)
        if not (np.asarray(self.theta0) > 0).all():
            raise ValueError("theta0 must be positive: a weight that starts at zero stays there.")

    @property
    def potential(self) -> HyperbolicEntropy:
        """Q."""
        return HyperbolicEntropy(self.alpha**2 * np.asarray(self.theta0, float) ** 2)

    def limit(self, x: Float[AnyArray, "train features"], y: Float[AnyArray, " train"]) -> Limit:
        r"""Where gradient flow ends: the interpolator with the least Q.

        Examples
        --------
        >>> import numpy as np
        >>> x, y = np.array([[1.0, 2.0]]), np.array([2.0])
        >>> DiagonalNetwork(1e-6).limit(x, y).weights.round(6).tolist()
        [1e-06, 1.0]
        >>> DiagonalNetwork(1e3, np.array([2.0, 1.0])).limit(x, y).weights.round(6).tolist()
        [1.0, 0.5]
        """
        return mirror_limit(self.potential, x, y)

    def weights(
        self, x: Float[AnyArray, "train features"], integral: Float[AnyArray, "*times train"]
    ) -> np.ndarray:
        r"""$\beta$ at a time, from the integral $\int_0^tr$ of the residuals up to it."""
        return self.potential.weights(-4 * np.asarray(integral) @ np.asarray(x))

    def trajectory(
        self,
        x: Float[AnyArray, "train features"],
        y: Float[AnyArray, " train"],
        times: Float[AnyArray, " times"],
    ) -> Float[np.ndarray, "times features"]:
        r"""$\beta$ along gradient flow at increasing times, from the equation for the integrals alone."""
        x, y, times = np.asarray(x, float), np.asarray(y, float), np.asarray(times, float)
        rates = lambda t, integral: x @ self.weights(x, integral) - y
        flow = solve_ivp(rates, (0.0, times[-1]), np.zeros(len(y)), "LSODA", times, rtol=_FLOW, atol=_FLOW)
        return self.weights(x, flow.y.T)

    def large_scale_limit(self, x: Float[AnyArray, "train features"], y: Float[AnyArray, " train"]) -> Limit:
        r"""The limit for large alpha: the interpolator with the least $\sum_i\beta_i^2/\theta_{0i}^2$."""
        return mirror_limit(Quadratic(np.asarray(self.theta0, float) ** 2), x, y)

    def small_scale_law(self, x: Float[AnyArray, "train features"], y: Float[AnyArray, " train"]) -> Weights:
        r"""$\beta$ for small alpha: $b$ with the least sum of sizes, and the law of its unused features.

        $$\beta_i\simeq2\alpha^2\theta_{0i}^2\sinh\big(x_i\cdot(\nu\log\alpha^{-2}+\delta)\big)
        \simeq\sigma_i\theta_{0i}^2\alpha^{2(1-|x_i\cdot\nu|)}e^{\sigma_ix_i\cdot\delta},\qquad\sigma_i=\mathrm{sign}(x_i\cdot\nu),$$

        with $x_j\cdot\delta=\sigma_j\log(|b_j|/\theta_{0j}^2)$ for the used features. It needs a unique
        $b$ that uses as many features as there are equations.
        """
        x, y = equations(x, y)
        found = least_sum(x, y)
        used = found.active
        if np.count_nonzero(used) != len(y) or found.slack < _ACTIVE:
            raise ValueError(
                f"the interpolator with the least sum of sizes uses {np.count_nonzero(used)} features for "
                f"{len(y)} equations, with a slack of {found.slack:.2g}: it is not unique, use `limit`."
            )
        shape = np.broadcast_to(np.asarray(self.theta0, float) ** 2, found.weights.shape)
        sizes = np.log(np.abs(found.weights[used]) / shape[used])
        delta = np.linalg.solve(x[:, used].T, np.sign(found.weights[used]) * sizes)
        slopes = -2 * np.log(self.alpha) * found.slopes + delta @ x
        return np.where(used, found.weights, 2 * self.alpha**2 * shape * np.sinh(slopes))

    def effective_scale(
        self, x: Float[AnyArray, "train features"], y: Float[AnyArray, " train"], eta: float
    ) -> Weights:
        r"""$\theta_+\theta_-$ at the end of gradient descent with step eta, to first order in eta.

        A step multiplies the product by $1-4\eta^2g_i^2$, $g=X^Tr$, so that descent ends where gradient flow
        from the smaller product $\alpha^2\theta_{0i}^2\exp(-4\eta\int g_i^2dt)$ does: a finite step acts
        like a smaller start. `mirror_limit(HyperbolicEntropy(scale), x, y)` is that end, up to $\eta^2$.
        """
        check_positive("eta", eta)
        x, y = equations(x, y)
        size = np.abs(y).max() or 1.0

        def rates(t: float, state: np.ndarray) -> np.ndarray:
            r = x @ self.weights(x, state[: len(y)]) - y
            return np.append(r, (x.T @ r) ** 2)

        def arrived(t: float, state: np.ndarray) -> float:
            return float(np.abs(rates(t, state)[: len(y)]).max() - _ARRIVED * size)

        arrived.terminal = True  # type: ignore[attr-defined]
        start = np.zeros(len(y) + x.shape[1])
        flow = solve_ivp(
            rates,
            (0.0, 1e300),
            start,
            "LSODA",
            events=arrived,
            rtol=_FLOW,
            atol=_FLOW * 1e-2,
            first_step=1e-12,
        )
        return np.asarray(self.potential.scale * np.exp(-4 * eta * flow.y[len(y) :, -1]))


def least_sum(x: Float[AnyArray, "train features"], y: Float[AnyArray, " train"]) -> LeastSum:
    r"""The interpolator with the least $\sum_i|\beta_i|$, by a linear programme (basis pursuit)."""
    x, y = equations(x, y)
    found: Any = linprog(
        np.ones(2 * x.shape[1]), A_eq=np.concatenate([x, -x], axis=1), b_eq=y, method="highs"
    )
    positive, negative = np.split(found.x, 2)
    nu = np.asarray(found.eqlin.marginals)
    return LeastSum(positive - negative, nu, nu @ x)
