r"""How the loss falls during training, averaged over initialisations.

In the basis of the NTK's eigenvectors v the residual of every mode shrinks by itself, so the training
loss is $\frac12\sum_i\rho_i(t)^2\,(|v_i\cdot y|^2 + n_{out}\,v_i^TKv_i)$; the test loss is a quadratic
form in the gains $g_i(t)$ whose matrix does not depend on time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.checks import as_numbers
from finitewidth._base.either import refuse_traced
from finitewidth._base.linalg.congruence import congruence
from finitewidth.algorithms.interface import SpectralAlgorithm, check_algorithm
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.prediction.problem.data import Start, as_targets, starting_outputs
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.inputs import ArrayLike

# Rows of the quadratic form that are in memory at a time.
_ROWS = 512


class LossCurves(eqx.Module):
    """Expected loss per point, half the squared error summed over outputs.

    `at` holds the numbers of steps (gradient descent) or the times (gradient flow).
    """

    at: Float[np.ndarray, " times"]
    train: Float[np.ndarray, " times"]
    test: Float[np.ndarray, " times"] | None


def loss_curves(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    at: Sequence[float | int] | np.ndarray,
    y_test: ArrayLike | None = None,
    *,
    initial: Start | None = None,
    ridge: float | Array = 0.0,
) -> LossCurves:
    """Expected training and test loss after each of the given numbers of steps (or times).

    Parameters
    ----------
    problem
        Network and data: `TrainingProblem.of(net, x_train, y_train, x_test)`.
    algorithm
        `GradientDescent(eta)` or `GradientFlow()`; where it stops does not matter here.
    at
        Numbers of steps, or times; infinity included.
    y_test
        Targets at the test points; without them there is no test curve.
    initial, ridge
        As in `predict`.

    Examples
    --------
    >>> import jax.numpy as jnp, finitewidth as fw
    >>> x = jnp.linspace(-1, 1, 8)[:, None]
    >>> problem = fw.TrainingProblem.of(fw.MLP((64,), "relu", 0.1, 2.0), x, jnp.sin(3 * x[:, 0]), x)
    >>> curves = fw.loss_curves(problem, fw.GradientFlow(), at=[0, 1, 10])
    >>> bool(curves.train[0] > curves.train[1] > curves.train[2])
    True
    """
    if not isinstance(problem, TrainingProblem):
        raise TypeError(f"problem must be what TrainingProblem.of returned, got {type(problem).__name__}.")
    check_algorithm(algorithm)
    refuse_traced("loss_curves", problem, algorithm, ridge)
    if np.ndim(as_numbers("at", at)) != 1:
        raise ValueError(f"at must be a list of numbers of steps, or of times, got {at!r}.")
    spectrum = problem.spectrum()
    algorithm = algorithm.resolved(float(spectrum.eigenvalues[-1]) + ridge)
    stops = [algorithm.stopped(_plain(t)) for t in np.asarray(at).tolist()]
    if ridge == 0 and any(stop.converged for stop in stops):
        problem.refuse_duplicates()
    modes = _Modes.of(problem, spectrum, initial)
    left = np.stack([np.asarray(spectrum.residual(stop, ridge)) for stop in stops])
    train = 0.5 * left**2 @ modes.power
    times, rows = np.asarray(at, dtype=float), len(problem.y)
    if y_test is None:
        return LossCurves(times, train / rows, None)
    y_test = np.asarray(as_targets(y_test, len(problem.x_test), problem.y.dtype, "y_test"))
    shifted = spectrum.eigenvalues + ridge
    gains = np.stack([np.asarray(stop.gain(shifted)) for stop in stops])
    return LossCurves(times, train / rows, modes.test_loss(gains, y_test) / len(y_test))


class _Modes(NamedTuple):
    """Everything that the loss needs, in the basis of the training kernel's eigenvectors."""

    labels: Float[np.ndarray, "train out"]
    power: Float[np.ndarray, " train"]
    reach: Float[np.ndarray, "test train"]
    start: Float[np.ndarray, "test out"]
    prior: float
    linear: Float[np.ndarray, " train"]
    nngp: Float[np.ndarray, "train train"] | None

    @classmethod
    def of(cls, problem: TrainingProblem, spectrum: Spectrum, initial: Start | None) -> "_Modes":
        V, y = np.asarray(spectrum.eigenvectors), np.asarray(problem.y)
        out = y.shape[1]
        reach = problem.reach(spectrum)
        if initial is not None:
            at_train, start = starting_outputs(initial, problem.x_train, problem.x_test, out)
            labels = V.T @ (y - np.asarray(at_train))
            power, zero = np.sum(labels**2, axis=1), np.zeros_like(labels[:, 0])
            return cls(labels, power, reach, np.asarray(start), 0.0, zero, None)
        labels = V.T @ y
        K = congruence(V, problem.train.nngp) if problem.modes is None else np.asarray(problem.modes.nngp)
        power = np.sum(labels**2, axis=1) + out * np.diag(K)
        test = None if problem.modes is None else problem.modes.test
        if test is None:
            prior, shared = np.diag(problem.test.nngp), np.asarray(problem.test_train.nngp) @ V
        else:
            prior, shared = test.prior, test.nngp
        linear = out * np.einsum("ij,ij->j", reach, shared)
        start = np.zeros((len(reach), out), reach.dtype)
        return cls(labels, power, reach, start, out * float(np.sum(prior)), linear, K)

    def test_loss(
        self, gains: Float[np.ndarray, "times train"], y_test: Float[np.ndarray, "test out"]
    ) -> Float[np.ndarray, " times"]:
        """Expected loss, summed over the test points, for each row of gains."""
        times, out = len(gains), self.labels.shape[1]
        learnt = gains[:, :, None] * self.labels
        mean = self.reach @ np.moveaxis(learnt, 1, 0).reshape(gains.shape[1], times * out)
        bias = mean.reshape(-1, times, out) + (self.start - y_test)[:, None]
        squares = np.sum(bias**2, axis=(0, 2))
        return 0.5 * (squares + self.prior - 2 * gains @ self.linear + self._quadratic(gains, out))

    def _quadratic(self, gains: Float[np.ndarray, "times train"], out: int) -> Float[np.ndarray, " times"]:
        r"""$n_{out}\sum_{jk} g_j\tilde K_{jk}(R^TR)_{jk}g_k$ with the reach R, some rows at a time."""
        found = np.zeros(len(gains), gains.dtype)
        if self.nngp is None:
            return found
        for start in range(0, len(self.nngp), _ROWS):
            rows, columns = slice(start, start + _ROWS), slice(start, None)
            form = self.nngp[rows, columns] * (self.reach[:, rows].T @ self.reach[:, columns])
            # The form is symmetric: what is beside the blocks on its diagonal counts twice.
            form[:, len(form) :] *= 2
            found += np.sum(gains[:, rows] * (gains[:, columns] @ form.T), axis=1)
        return out * found


def _plain(t: float | int) -> float | int:
    """A Python number, whole where it is."""
    return int(t) if np.isfinite(t) and t == int(t) else float(t)
