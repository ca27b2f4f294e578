"""Kernel regression with learned features, as a scikit-learn estimator."""

import warnings
from abc import ABC, abstractmethod
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from finitewidth._base.checks import check_positive, check_ridge, check_whole
from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.interface import check_algorithm
from finitewidth.architecture.models.meta_kernel import MetaKernel, ScaledMetaKernel
from finitewidth.architecture.models.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.architecture.models.taylor_models import FeatureModel
from finitewidth.estimators.data_frames import apply_frame, fit_frame
from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, fit_nearly_kernel, warn_if_large
from finitewidth.nearly_kernel_methods.representation import Deformation, best_epsilon, deformation

_CHOICES = ("cv", "epsilon*")
_HELD_OUT = 0.25


class _Source(ABC):
    """Where kernels and meta kernels come from."""

    @abstractmethod
    def at(self, x: np.ndarray) -> Any:
        """What is worth computing once for a set of points."""

    @abstractmethod
    def kernel(self, one: Any, two: Any) -> np.ndarray:
        """The kernel of two sets."""

    @abstractmethod
    def meta_kernel(self, zero: Any, one: Any, two: Any) -> MetaKernel:
        """The meta kernel of three sets."""


class _Neurons(_Source):
    def __init__(self, neurons: RandomNeurons):
        self.neurons = neurons

    def at(self, x):
        return self.neurons.at(x)

    def kernel(self, one, two):
        return self.neurons.kernel(one, two)

    def meta_kernel(self, zero, one, two):
        return NeuronMetaKernel(self.neurons, (zero, one, two))


class _Model(_Source):
    def __init__(self, model: FeatureModel):
        self.model = model

    def at(self, x):
        return x

    def kernel(self, one, two):
        return np.asarray(self.model.kernel(one, two))

    def meta_kernel(self, zero, one, two):
        return self.model.meta_kernel(zero, one, two)


class NearlyKernelRegressor(RegressorMixin, BaseEstimator):
    r"""Kernel regression plus the correction that learned features bring, to first or second order.

    The features are those of a hidden layer of random neurons, and the correction is what training them as
    well would change: $z^F+\epsilon z^I$. At epsilon = 0 this is kernel ridge regression, at epsilon = 1 the
    hidden layer itself to this order. Outputs do not share weights.

    Parameters
    ----------
    neurons, activation, gain
        The hidden layer: its width, a smooth activation, and the spread of its input weights.
    model
        A `QuadraticModel`, in place of random neurons.
    epsilon
        A number; "cv" for the least squared error over cross-validation folds; "epsilon*" for the formula of
        the best epsilon on a quarter of the points, held out.
    order
        1, or 2 to add the term of second order, which is known for direct optimisation.
    algorithm
        How the weights are trained: direct optimisation unless given.
    ridge
        Penalty on the weights, in units of the mean diagonal of the kernel.
    folds
        Number of cross-validation folds.
    random_state
        Draws neurons, folds and the held-out quarter.

    Attributes
    ----------
    epsilon_
        The epsilon in use.
    feature_share_
        How much of the outputs at the training points came from learned features, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> model = NearlyKernelRegressor().fit(x[:40], np.sin(2 * x[:40, 0]) * x[:40, 1])
    >>> model.predict(x[40:]).shape, model.explain(x[40:]).correction.shape
    ((20,), (20, 1))
    """

    def __init__(
        self,
        neurons=256,
        activation="tanh",
        gain=0.5,
        model=None,
        epsilon="cv",
        order=1,
        algorithm=None,
        ridge=1e-2,
        folds=5,
        random_state=0,
    ):
        self.neurons = neurons
        self.activation = activation
        self.gain = gain
        self.model = model
        self.epsilon = epsilon
        self.order = order
        self.algorithm = algorithm
        self.ridge = ridge
        self.folds = folds
        self.random_state = random_state

    def fit(self, X, y):
        """Fit to inputs (n, features) and targets (n,) or (n, outputs)."""
        X, self.preparation_ = fit_frame(X)
        checked: Any = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        X, y = checked
        self._check_settings(len(X))
        self._shape_ = y.shape[1:]
        self._seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        targets = np.asarray(y, float).reshape(len(y), -1)
        self.offset_ = targets.mean(axis=0)
        self.X_, self.targets_ = X, targets - self.offset_
        self._prepare()
        self.epsilon_ = self._choose_epsilon()
        parts = self._training_parts(self.points_, self.epsilon_)
        self.fit_ = fit_nearly_kernel(*parts, self.targets_, self._algorithm(), ridge=self._ridge())
        machine = self._machine(X)
        warn_if_large(machine)
        self.feature_share_ = float(
            np.abs(machine.correction).sum()
            / max(np.abs(machine.correction).sum() + np.abs(machine.linear).sum(), np.finfo(float).tiny)
        )
        return self

    def predict(self, X):
        """Outputs in the shape of the targets."""
        machine = self.explain(X)
        return np.asarray(machine.prediction + self.offset_).reshape(-1, *self._shape_)

    def explain(self, X) -> NearlyKernel:
        """Where the outputs (without the mean of the targets) come from: fixed and learned features.

        `linear` is kernel regression, `correction` what learned features add, `share` its part of each
        output; with order 2 the second order counts to `from_endpoint`.
        """
        check_is_fitted(self)
        inputs = apply_frame(X, self.preparation_)
        points: Any = validate_data(self, inputs, dtype=np.float64, reset=False)
        return self._machine(points)

    def _machine(self, points: np.ndarray) -> NearlyKernel:
        """The outputs at inputs that are checked and prepared."""
        there = self.source_.at(points)
        k, mu_test, mu_train_test = self._test_parts(self.points_, there, self.epsilon_)
        machine = self.fit_.predict(k, mu_test, mu_train_test)
        if self.order == 1:
            return machine
        series = self._series(self.points_, self.targets_, there)
        return machine._replace(from_endpoint=machine.from_endpoint + self.epsilon_**2 * series.z_II)

    def _check_settings(self, n: int) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {self.order!r}.")
        check_algorithm(self._algorithm())
        check_whole("neurons", self.neurons)
        check_positive("gain", self.gain)
        check_ridge(self.ridge)
        if self.order == 2:
            self._algorithm().second_order()
        if isinstance(self.epsilon, str):
            if self.epsilon not in _CHOICES:
                raise ValueError(f'epsilon must be a number, "cv" or "epsilon*", got {self.epsilon!r}.')
            if n < 4:
                raise ValueError(
                    f"epsilon={self.epsilon!r} needs at least 4 points to learn from, got n_samples={n} "
                    "(1 sample or a few): give epsilon as a number."
                )

    def _algorithm(self) -> Any:
        return DirectOptimization() if self.algorithm is None else self.algorithm

    def _prepare(self) -> None:
        if self.model is None:
            draw = jax.random.key(self._seed_)
            inputs = self.X_.shape[1]
            drawn = RandomNeurons.draw(draw, inputs, self.neurons, self.activation, float(self.gain))
            self.source_: _Source = _Neurons(drawn)
        else:
            self.source_ = _Model(self.model)
        self.points_ = self.source_.at(self.X_)
        self.scale_ = float(np.mean(np.diag(self.source_.kernel(self.points_, self.points_))))

    def _ridge(self) -> float:
        return self.ridge * self.scale_

    def _training_parts(self, here: Any, epsilon: float) -> tuple[np.ndarray, MetaKernel]:
        mu = self.source_.meta_kernel(here, here, here)
        return self.source_.kernel(here, here), ScaledMetaKernel(mu, epsilon)

    def _test_parts(self, here: Any, there: Any, epsilon: float) -> tuple[np.ndarray, MetaKernel, MetaKernel]:
        mu_test = self.source_.meta_kernel(there, here, here)
        mu_train_test = self.source_.meta_kernel(here, there, here)
        k_test = self.source_.kernel(there, here)
        return k_test, ScaledMetaKernel(mu_test, epsilon), ScaledMetaKernel(mu_train_test, epsilon)

    def _series(self, here: Any, targets: np.ndarray, there: Any) -> Deformation:
        """Powers of epsilon of the outputs there, of points trained here."""
        k, mu = self._training_parts(here, 1.0)
        k_test, mu_test, mu_train_test = self._test_parts(here, there, 1.0)
        if self.order == 2:
            return deformation(
                k, k_test, mu, mu_test, mu_train_test, targets, self._algorithm(), ridge=self._ridge()
            )
        fit = fit_nearly_kernel(k, mu, targets, self._algorithm(), ridge=self._ridge())
        machine = fit.predict(k_test, mu_test, mu_train_test)
        return Deformation(machine.linear, machine.correction, 0 * machine.correction)

    def _choose_epsilon(self) -> float:
        if not isinstance(self.epsilon, str):
            return float(self.epsilon)
        n = len(self.X_)
        if self.epsilon == "epsilon*":
            order = np.random.default_rng(self._seed_).permutation(n)
            held = max(1, round(_HELD_OUT * n))
            series = self._left_out(order[held:], order[:held])
            best = best_epsilon(series, self.targets_[order[:held]])
            return _within_reach(best.epsilon, [series]) if np.isfinite(best.epsilon) else 0.0
        folds = KFold(min(self.folds, n), shuffle=True, random_state=self._seed_).split(self.X_)
        pieces = [(self._left_out(train, held), self.targets_[held]) for train, held in folds]
        return _within_reach(_least_squares(pieces), [series for series, _ in pieces])

    def _left_out(self, train: np.ndarray, held: np.ndarray) -> Deformation:
        return self._series(
            self.source_.at(self.X_[train]), self.targets_[train], self.source_.at(self.X_[held])
        )

    def __getstate__(self):
        # Activation functions cannot be pickled; neurons are drawn again from their seed.
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("source_", "points_")}

    def __setstate__(self, state):
        super().__setstate__(state)
        if "X_" in state:
            self._prepare()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _within_reach(epsilon: float, pieces: list[Deformation]) -> float:
    """The epsilon itself, or the largest at which the correction is not larger than what it corrects."""
    fixed, learned = (
        np.sqrt(sum(float(np.sum(np.asarray(z) ** 2)) for z in parts))
        for parts in ([s.z_F for s in pieces], [s.z_I for s in pieces])
    )
    limit = fixed / max(learned, np.finfo(float).tiny)
    if abs(epsilon) <= limit:
        return epsilon
    warnings.warn(
        f"the best epsilon, {epsilon:.3g}, would make the quadratic correction larger than the linear "
        f"prediction; {limit:.3g} is used in its place.",
        stacklevel=4,
    )
    return float(np.copysign(limit, epsilon))


def _least_squares(pieces: list[tuple[Deformation, np.ndarray]]) -> float:
    """The epsilon of least squared error over all pieces: a quartic in epsilon, minimised exactly."""
    loss = np.polynomial.Polynomial([0.0])
    for series, y in pieces:
        gap, z_I, z_II = np.asarray(series.z_F) - y, np.asarray(series.z_I), np.asarray(series.z_II)
        products = [gap * gap, 2 * gap * z_I, z_I**2 + 2 * gap * z_II, 2 * z_I * z_II, z_II**2]
        loss = loss + np.polynomial.Polynomial([float(p.sum()) for p in products])
    turning = loss.deriv().trim().roots()
    real = turning[np.abs(turning.imag) <= 1e-9 * (1 + np.abs(turning))].real
    if not len(real):
        warnings.warn("the error does not depend on epsilon: it is set to 0.", stacklevel=3)
        return 0.0
    return float(real[np.argmin(loss(real))])
