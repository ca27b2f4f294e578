r"""Training cut into intervals: how far the residuals push in each, and how a late push is unlearnt.

The residuals of infinite width are known at every time. In the eigenbasis of the training NTK
$\Theta=U\,\mathrm{diag}(\lambda)\,U^T$ and with a ridge r a mode obeys $e'=-\lambda e-r(e-e(0))$, or the same
in steps, so that the *impulse* of an interval, the integral of e against what the pull of the ridge leaves of
it at the interval's end, is a known multiple of e(0).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from finitewidth.algorithms.interface import SpectralAlgorithm

# The number of steps after which e(0) has been forgotten to that accuracy may be infinite.
_MOST_STEPS = 1e15


class Schedule(NamedTuple):
    """The intervals of one training.

    Attributes
    ----------
    U, eigenvalues
        Eigenvectors, in columns, and eigenvalues of the training NTK, without the ridge.
    impulse
        Multiples of a mode's first residual.
    decay
        What the pull of the ridge leaves of a displacement in each interval; one without a ridge.
    step
        Whether the interval is one step of gradient descent, in which every slope is frozen.
    share
        The share of an interval's impulse that one of its steps has; zero for a flow.
    answer
        At the nodes that are looked at, the last one last: what a shift of the training outputs there, in a
        mode, takes away from other outputs, per unit of kernel.
    every_node
        Whether all ends of intervals are looked at, as before the end of training, or only the last one.
    """

    U: Float[np.ndarray, "train k"]
    eigenvalues: Float[np.ndarray, " k"]
    impulse: Float[np.ndarray, "intervals k"]
    decay: Float[np.ndarray, " intervals"]
    step: Bool[np.ndarray, " intervals"]
    share: Float[np.ndarray, " intervals"]
    answer: Float[np.ndarray, "nodes k"]
    every_node: bool

    def impulses(self, e: Float[np.ndarray, "train *rest"]) -> Float[np.ndarray, "intervals train *rest"]:
        """Impulses of all intervals for residuals e at the start."""
        modes = np.tensordot(self.U.T, e, axes=1)
        scaled = self.impulse.reshape(*self.impulse.shape, *(1,) * (modes.ndim - 1)) * modes
        return np.moveaxis(np.tensordot(self.U, scaled, axes=(1, 1)), 0, 1)


def schedule(
    Theta: Float[np.ndarray, "train train"],
    algorithm: SpectralAlgorithm,
    ridge: float,
    *,
    single_steps: int,
    growth: float,
    left: float = 1e-10,
) -> Schedule:
    """Cut the training on a kernel into intervals.

    Parameters
    ----------
    single_steps
        So many steps are intervals of their own; later ones are taken together as a flow.
    growth
        Length of a later interval over the time that has passed.
    left
        What the end of training may leave of the slowest mode.
    """
    eigenvalues, U = np.linalg.eigh(Theta)
    eigenvalues = np.maximum(eigenvalues, 1e-14 * eigenvalues[-1])
    largest = float(eigenvalues[-1]) + ridge
    clock = algorithm.resolved(largest).clock()
    rates = eigenvalues + ridge
    if clock.continuous:
        end = min(float(clock.end), -math.log(left) / float(min(rates[0], ridge or np.inf)))
        times = _flow_times(end, largest, growth)
        table = _flow_table(eigenvalues, ridge, times)
        step, share = np.zeros(len(times) - 1, bool), np.zeros(len(times) - 1)
    else:
        eta = float(clock.residual_step)
        end = min(float(clock.end), _steps_to_the_end(np.append(rates, [ridge] if ridge else []), eta, left))
        # With a ridge neurons hop about the kink to the end: the last steps are single ones again.
        last = min(single_steps, int(end)) if ridge else 0
        times = _step_times(end - last, single_steps, growth)
        times = np.append(times, times[-1] + np.arange(1, last + 1))
        table = _step_table(eigenvalues, ridge, eta, times)
        step = np.diff(times) == 1
        count = np.diff(times)
        share = ridge * eta / -np.expm1(count * math.log1p(-ridge * eta)) if ridge else 1 / count
    impulse, decay, kept, early, late = table
    if algorithm.converged:
        return Schedule(U, eigenvalues, impulse, decay, step, share, 1 / rates[None], False)
    answer, after = np.zeros((len(times), len(rates))), np.ones_like(rates)
    for k in range(len(times) - 2, -1, -1):
        answer[k] += after * early[k]
        answer[k + 1] += after * late[k]
        after = after * kept[k]
    return Schedule(U, eigenvalues, impulse, decay, step, share, answer[1:], True)


def _flow_times(end: float, largest: float, growth: float) -> Float[np.ndarray, " nodes"]:
    """Equally spaced in log(1 + largest t)."""
    reach = math.log1p(largest * end)
    count = max(1, math.ceil(reach / growth))
    times = np.expm1(np.linspace(0.0, reach, count + 1)) / largest
    return times


def _steps_to_the_end(rates: Float[np.ndarray, " k"], eta: float, left: float) -> float:
    slowest = float(np.max(np.abs(1 - eta * rates)))
    return min(_MOST_STEPS, float(math.ceil(math.log(left) / math.log(slowest)))) if slowest else 1.0


def _step_times(end: float, single_steps: int, growth: float) -> Float[np.ndarray, " nodes"]:
    times = list(range(int(min(end, single_steps)) + 1))
    while times[-1] < end:
        times.append(int(min(end, times[-1] + max(1, round(growth * times[-1])))))
    return np.array(times, float)


class _Table(NamedTuple):
    """Impulses and pull of every interval, and G(end) = kept G - early S(start) - late S(end)."""

    impulse: Float[np.ndarray, "intervals k"]
    decay: Float[np.ndarray, " intervals"]
    kept: Float[np.ndarray, "intervals k"]
    early: Float[np.ndarray, "intervals k"]
    late: Float[np.ndarray, "intervals k"]


def _flow_table(t: Float[np.ndarray, " k"], ridge: float, times: Float[np.ndarray, " nodes"]) -> _Table:
    h, start = np.diff(times)[:, None], times[:-1, None]
    rate = t + ridge
    resting = -np.expm1(-ridge * h) / ridge if ridge else h
    moving = np.exp(-rate * start - ridge * h) * -np.expm1(-t * h) / t
    impulse = (ridge * resting + t * moving) / rate
    kept = np.exp(-rate * h)
    early, late = _linear_in_time(rate * h, kept, -np.expm1(-rate * h))
    return _Table(impulse, np.exp(-ridge * h[:, 0]), kept, early / rate, late / rate)


def _linear_in_time(x: np.ndarray, kept: np.ndarray, spent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the two ends of an interval for a source that is linear in between."""
    small = x < 1e-4
    safe = np.where(small, 1.0, x)
    late = np.where(small, x / 2 - x**2 / 6, 1 - spent / safe)
    return spent - late, late


def _step_table(
    t: Float[np.ndarray, " k"], ridge: float, eta: float, times: Float[np.ndarray, " nodes"]
) -> _Table:
    n, start = np.diff(times)[:, None], times[:-1, None]
    rate = t + ridge
    x, pull = 1 - eta * rate, 1 - eta * ridge
    kept, held = x**n, pull**n
    resting = (1 - held) / ridge if ridge else eta * n
    moving = np.where(n == 1, eta, (held - kept) / t) * x**start
    impulse = (ridge * resting + t * moving) / rate
    # Sums over the steps i of an interval of x^(n-1-i), and of the same times i/n.
    plain = np.where(n == 1, 1.0, (1 - kept) / (eta * rate))
    rising = np.where(n == 1, 0.0, ((n - 1) - (x - kept) / (eta * rate)) / (eta * rate) / n)
    return _Table(impulse, held[:, 0], kept, eta * (plain - rising), eta * rising)
