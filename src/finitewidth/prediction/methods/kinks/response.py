r"""What the windows add to the trained outputs, for given residuals at the start.

The window of training point q and kink c adds, with $\sigma_D$ the slope at D of a neuron at the kink at q,

$$S_D=\tfrac12E|a|^3\,p_q(c)\,\langle\sigma_DA\rangle\,\frac{\Theta_{1,Dq}}{\Theta_{1,qq}},\qquad
S_q=\tfrac12E|a|^3\,p_q(c)\,\langle B\rangle,$$

summed over the two signs of a. On the training set this is unlearnt by the rest of training.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.expectations.kinked.kinks import Kink
from finitewidth.prediction.methods.kinks.schedule import Schedule
from finitewidth.prediction.methods.kinks.setting import Setting
from finitewidth.prediction.methods.kinks.slopes import Patterns, patterns
from finitewidth.prediction.methods.kinks.window_map import Paths, window_integrals

_DIRECTIONS_AT_ONCE = 2048


class Window(NamedTuple):
    """One kink at one training point, with the slopes of its neurons elsewhere."""

    point: int
    kink: Kink
    others: list[int]
    patterns: Patterns


def windows_of(setting: Setting) -> list[Window]:
    """All windows, for at most three different training points."""
    train, points = setting.windows, len(setting.K1)
    found = []
    for q in range(train):
        others = [b for b in range(train) if b != q]
        for kink in setting.slope.kinks:
            at = patterns(setting.slope, setting.K1, q, kink, others, list(range(train, points)))
            found.append(Window(q, kink, others, at))
    return found


class Response(NamedTuple):
    """The coefficient of n^(-1/2) at the test points as a function of the residuals at the start."""

    setting: Setting
    windows: list[Window]
    schedule: Schedule
    shortest: float

    def __call__(self, e: Float[np.ndarray, "train starts"]) -> Float[np.ndarray, "test starts"]:
        """c(e) for one output."""
        parts = range(0, e.shape[1], _DIRECTIONS_AT_ONCE)
        return np.concatenate([self._part(e[:, i : i + _DIRECTIONS_AT_ONCE]) for i in parts], axis=1)

    def _part(self, e: Float[np.ndarray, "train starts"]) -> Float[np.ndarray, "test starts"]:
        impulses = self.setting.gathered(self.schedule.impulses(e))
        on_train = np.zeros((len(self.schedule.answer), self.setting.windows, e.shape[1]))
        on_test = np.zeros((len(self.setting.twin), e.shape[1]))
        for window in self.windows:
            self._add(window, impulses, on_train, on_test)
        return delivered(self.setting, self.schedule, on_train, on_test)

    def _add(self, window: Window, impulses: np.ndarray, on_train: np.ndarray, on_test: np.ndarray) -> None:
        q, kink, others, (slopes, weight, test_slopes) = window
        Theta1, train = self.setting.Theta1, self.setting.windows
        pushed = np.einsum("kbd,b,sb->ksd", impulses[:, others], Theta1[q, others], slopes)
        own = Theta1[q, q] * impulses[:, q, None]
        left, right = (-(pushed + side * own) for side in (kink.left, kink.right))
        shape = left.shape[1:]
        both = lambda v: np.stack([v, -v], axis=1).reshape(len(v), -1)
        paths = left.shape[1] * left.shape[2] * 2
        found = window_integrals(
            Paths(
                both(left),
                both(right),
                np.full(paths, kink.left),
                np.full(paths, kink.right),
                self.schedule.decay,
                self.schedule.step,
                self.schedule.share,
            ),
            self.schedule.every_node,
            self.shortest,
        )
        A, B = (w.reshape(-1, 2, *shape) for w in found)
        A, B = A[:, 0] - A[:, 1], B[:, 0] - B[:, 1]
        size = self.setting.half_cube * self.setting.density(q, kink)
        near = size * Theta1[:, q] / Theta1[q, q]
        on_train[:, q] += size * np.einsum("s,ksd->kd", weight, B)
        on_train[:, others] += np.einsum("b,sb,s,ksd->kbd", near[others], slopes, weight, A)
        on_test += near[train:, None] * np.einsum("st,sd->td", test_slopes, A[-1])


def delivered(
    setting: Setting,
    schedule: Schedule,
    on_train: Float[np.ndarray, "nodes windows starts"],
    on_test: Float[np.ndarray, "test starts"],
) -> Float[np.ndarray, "test starts"]:
    """What is left at the test points when the rest of training has answered."""
    train = len(setting.y)
    on_modes = np.einsum("nk,nbd->kbd", schedule.U, on_train[:, setting.point_of].transpose(1, 0, 2))
    answered = np.einsum("bk,kbd->kd", schedule.answer, on_modes)
    equal = setting.twin >= 0
    shifted = np.where(equal[:, None], on_train[-1, setting.twin], on_test)
    return shifted - (setting.outputs.Theta[train:, :train] @ schedule.U) @ answered
