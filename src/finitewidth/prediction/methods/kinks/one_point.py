r"""One training point: closed forms.

The coefficient at a test point is $c_D=k_D\,e|e|$ with the residual $e\sim N(-y,K)$ of the start, and

$$k_D=\tfrac14E|a|^3\Big(\frac{\Theta_{1,11}}{\Theta_{11}+r}\Big)^2\sum_{kinks}p(c)\Big[f\,
\frac{\Theta_{1,D1}}{\Theta_{1,11}}\,E[s'(z_D)\,|\,z_1=c]\,k_A-m_Dk_B\Big].$$
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.expectations.kinked.kinks import Kink
from finitewidth.prediction.methods.kinks.setting import Setting
from finitewidth.prediction.methods.kinks.slopes import patterns


class Moved(NamedTuple):
    """k_A and k_B: what a window does, in units of half the square of its displacement at slope one."""

    A: float
    B: float


def moved_by_flow(kink: Kink) -> Moved:
    """Gradient flow to the end."""
    left, right = kink.left, kink.right
    A = kink.jump * (abs(right) - abs(left))
    B = left * A + kink.jump * (right * abs(right) - np.sign(right) * max(right * left, 0.0))
    return Moved(A, B)


def moved_with_ridge(kink: Kink) -> Moved:
    """The stationary point with a ridge: where both slopes have one sign, the path to it does not matter."""
    A, B = moved_by_flow(kink)
    if kink.left * kink.right > 0:
        B = kink.jump**2 * max(abs(kink.left), abs(kink.right))
    return Moved(A, B)


def moved_by_steps(kink: Kink, x: float) -> Moved:
    """Steps that leave x, from 0 to 1, of the residual; no slope may change its sign at the kink."""
    A, B = moved_by_flow(kink)
    return Moved(2 * x / (1 + x) * A, B)


def closed_form(
    setting: Setting, algorithm: SpectralAlgorithm, ridge: float
) -> Float[np.ndarray, " test"] | None:
    """k_D; None where there is no closed form: stopped training, or neurons that hop about the kink."""
    train = len(setting.y)
    if train != 1 or not algorithm.converged:
        return None
    K1, Theta1, Theta = setting.K1, setting.Theta1, setting.outputs.Theta
    clock = algorithm.resolved(float(Theta[0, 0]) + ridge).clock()
    x = 1 - clock.residual_step * (Theta[0, 0] + ridge)
    one_sign = all(k.left * k.right >= 0 for k in setting.slope.kinks)
    if not (clock.continuous or (ridge == 0 and x >= 0 and one_sign)):
        return None
    m = Theta[1:, 0] / (Theta[0, 0] + ridge)
    total = np.zeros(len(m))
    for kink in setting.slope.kinks:
        if ridge:
            moved = moved_with_ridge(kink)
        else:
            moved = moved_by_flow(kink) if clock.continuous else moved_by_steps(kink, float(x))
        slopes = patterns(setting.slope, K1, 0, kink, [], list(range(1, len(K1)))).test[0]
        near = np.where(setting.twin >= 0, moved.B, Theta1[1:, 0] / Theta1[0, 0] * slopes * moved.A)
        total += setting.density(0, kink) * (near - m * moved.B)
    return setting.half_cube / 2 * (Theta1[0, 0] / (Theta[0, 0] + ridge)) ** 2 * total


def mean_signed_square(middle: float, variance: float) -> float:
    """E[e|e|] for e ~ N(middle, variance)."""
    rho = middle / math.sqrt(variance)
    return variance * ((1 + rho**2) * (2 * float(ndtr(rho)) - 1) + 2 * rho * _bell(rho))


def mean_size(middle: float, variance: float) -> float:
    """E|e| for e ~ N(middle, variance)."""
    rho = middle / math.sqrt(variance)
    return math.sqrt(variance) * (2 * _bell(rho) + rho * (2 * float(ndtr(rho)) - 1))


def _bell(rho: float) -> float:
    return math.exp(-(rho**2) / 2) / math.sqrt(2 * math.pi)
