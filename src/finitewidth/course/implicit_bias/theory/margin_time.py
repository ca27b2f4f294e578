r"""How long gradient descent needs to come near the hard-margin direction.

Gradient flow in $\tau=\log t$ is followed in $v=w-\hat w\tau$, which stays of order one:

$$\frac{dv}{d\tau}=\frac1n\sum_i\frac{e^{\tau-m_i}}{1+\sigma e^{-m_i}}\,y_ix_i-\hat w,\qquad
m_i=y_iw\cdot x_i,$$

with $\sigma=1$ for the logistic loss and 0 for the exponential one. So times like $e^{10^4}$ are no
obstacle. Late in training a share $1-c/\tau$ of the margin is reached,
$c=\log a_{max}-\sum_ia_i\log a_i/\sum_ia_i$.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive
from finitewidth.course.implicit_bias.theory.max_margin import MaxMargin

Loss = Literal["logistic", "exponential"]
LOSSES = ("logistic", "exponential")
_EARLY = math.log(1e-12)
_ACCURACY = 1e-9
# log t beyond which nobody waits, and where the law without the flow is exact to many digits anyway.
_LATEST = 1e7


class MarginTime(NamedTuple):
    r"""When a share of the margin is reached.

    Attributes
    ----------
    fraction
        The share.
    log_time
        $\log t$ of gradient flow on the mean loss.
    normalised_time
        $\int L\,dt$: the time that gradient flow on $\log L$ needs, about $\log t/\gamma^2$.
    smoothness
        The largest curvature of the logistic loss, $\lambda_{max}(X^TX)/4n$; infinite for the exponential
        loss.
    largest_input
        The largest $|x_i|$.
    """

    fraction: float
    log_time: float
    normalised_time: float
    smoothness: float
    largest_input: float

    def log10_steps(self, eta: float) -> float:
        """The decimal logarithm of the number of steps of gradient descent with step eta."""
        check_positive("eta", eta)
        if math.isfinite(self.smoothness) and eta >= 2 / self.smoothness:
            raise ValueError(
                f"eta={eta:.4g} is not below 2/largest curvature={2 / self.smoothness:.4g}: descent on "
                "the logistic loss need not follow its flow."
            )
        return self.log_time / math.log(10) - math.log10(eta)

    def normalised_steps(self, rate: float = 0.5) -> int:
        r"""Steps of gradient descent on $\log L$, each of size rate / largest $|x_i|^2$."""
        check_positive("rate", rate)
        return math.ceil(self.normalised_time * self.largest_input**2 / rate)


def margin_constant(found: MaxMargin) -> float:
    r"""$c$: the margin of the weights falls short of the largest by a share $c/\log t$, from any start."""
    a = found.multipliers[found.support]
    return float(np.log(a.max()) - a @ np.log(a) / a.sum())


def time_to_margin(
    found: MaxMargin,
    fraction: float = 0.99,
    *,
    loss: Loss = "logistic",
    start: Float[AnyArray, " features"] | None = None,
) -> MarginTime:
    """When gradient flow first reaches a share of the largest margin.

    Parameters
    ----------
    found
        What `max_margin` found.
    fraction
        Share of the margin: the smallest y_i w.x_i / |w| over its largest possible value.
    loss
        "logistic" or "exponential", the mean over the points.
    start
        First weights (the bias last); zero when left out.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.implicit_bias.theory import max_margin
    >>> found = max_margin(np.array([[1.0, 2.0], [-1.0, 0.5], [-2.0, -1.0]]), [1, 0, 0])
    >>> bool(time_to_margin(found, 0.99).log_time > time_to_margin(found, 0.9).log_time)
    True
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must be between 0 and 1, got {fraction!r}.")
    if loss not in LOSSES:
        raise ValueError(f"loss must be {' or '.join(map(repr, LOSSES))}, got {loss!r}.")
    rows, n = found.signed, len(found.signed)
    # A start of exactly zero has no direction.
    w = np.zeros(rows.shape[1]) if start is None else np.asarray(start, float)

    def slopes(tau: float, v: np.ndarray) -> np.ndarray:
        m = found.margins * tau + rows @ v
        late = np.minimum(tau - m, 700.0)
        return np.exp(late) / n if loss == "exponential" else np.exp(late - np.logaddexp(0.0, -m)) / n

    def rates(tau: float, state: np.ndarray) -> np.ndarray:
        weight = slopes(tau, state[:-1])
        m = found.margins * tau + rows @ state[:-1]
        # dt L: for late times both losses are their exponential tails.
        tail = (
            weight if loss == "exponential" else np.exp(tau) * np.logaddexp(0, -m) / n if tau < 30 else weight
        )
        return np.append(weight @ rows - found.weights, tail.sum())

    def reached(tau: float, state: np.ndarray) -> float:
        w = found.weights * tau + state[:-1]
        norm = float(np.linalg.norm(w))
        return (float((rows @ w).min()) / (norm * found.margin) if norm > 0 else -1.0) - fraction

    reached.terminal, reached.direction = True, 1.0  # type: ignore[attr-defined]
    flow = solve_ivp(
        rates, (_EARLY, _LATEST), np.append(w - found.weights * _EARLY, 0.0), "LSODA",
        events=reached, rtol=_ACCURACY, atol=_ACCURACY,
    )  # fmt: skip
    if not flow.t_events or not len(flow.t_events[0]):
        raise ValueError(f"the flow has not reached {fraction:g} of the margin at log t = {flow.t[-1]:.3g}.")
    smoothness = np.linalg.norm(rows, 2) ** 2 / (4 * n) if loss == "logistic" else math.inf
    return MarginTime(
        fraction=fraction,
        log_time=float(flow.t_events[0][0]),
        normalised_time=float(flow.y_events[0][0][-1]),
        smoothness=float(smoothness),
        largest_input=float(np.linalg.norm(rows, axis=1).max()),
    )
