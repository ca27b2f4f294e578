"""Infinitely wide networks as scikit-learn estimators.

`NTKRegressor` and `NTKClassifier` predict with networks trained by gradient descent, `NNGPRegressor` and
`NNGPClassifier` with the posterior of random networks. Standard deviations are over networks. Everything
is computed in double precision.
"""

from abc import abstractmethod
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import DirectOptimization, SpectralAlgorithm
from finitewidth.dynamics.cholesky import factorise, symmetric_product
from finitewidth.dynamics.kernel_descent import training_filter
from finitewidth.prediction.data import as_targets, warn_of_few_rows
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.leave_one_out import LeftOut, posterior_left_out, trained_left_out
from finitewidth.prediction.votes import label_noise, winning_probability
from finitewidth.statistics.kernels import kernels

__all__ = ["NNGPClassifier", "NNGPRegressor", "NTKClassifier", "NTKRegressor"]


class _WideNetwork(BaseEstimator):
    """A network of infinite width with training data; what the labels are is left to the subclass."""

    @abstractmethod
    def _train(self, kernel, y) -> None:
        """Set `filter_` and `dual_coef_` from the training kernels."""

    @abstractmethod
    def _law(self, X) -> TrainedDistribution:
        """The distribution of outputs at checked inputs."""

    def _network(self) -> MLP:
        if not (isinstance(self.depth, int | np.integer) and self.depth >= 1):
            raise ValueError(f"depth must be a whole number of affine layers, 1 or more, got {self.depth!r}.")
        rates = {name: value for name, value in self.get_params().items() if name.startswith("lambda_")}
        return MLP((1,) * (self.depth - 1), self.activation, self.C_b, self.C_W, **rates)

    def _fit_outputs(self, X, y) -> None:
        self.net_ = self._network()
        self.X_train_, self.y_train_ = X, np.asarray(as_targets(y, len(X), X.dtype, "y"))
        warn_of_few_rows(jnp.asarray(self.y_train_))
        kernel = kernels(self.net_, X)
        self._train(kernel, self.y_train_)

    def __getstate__(self):
        # Activation functions cannot be pickled; the network is rebuilt from the parameters.
        return {name: value for name, value in super().__getstate__().items() if name != "net_"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if "dual_coef_" in state:
            self.net_ = self._network()

    def _inputs(self, X):
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)


class _Trained(_WideNetwork):
    """Gradient descent on every layer: the law governed by the NTK."""

    def _train(self, kernel, y):
        algorithm = getattr(self, "algorithm", None) or DirectOptimization()
        if not isinstance(algorithm, SpectralAlgorithm):
            raise ValueError(f"algorithm must be GradientDescent, GradientFlow or DirectOptimization, got {algorithm!r}.")
        self.nngp_train_ = np.asarray(kernel.nngp)
        self.filter_ = training_filter(kernel.ntk, algorithm, self.ridge)
        self.dual_coef_ = np.asarray(self.filter_.solve(y))

    def _mean(self, X):
        return np.asarray(kernels(self.net_, X, self.X_train_).ntk) @ self.dual_coef_

    def _law(self, X):
        reach, own = kernels(self.net_, X, self.X_train_), kernels(self.net_, X)
        smoother = np.asarray(self.filter_.solve(reach.ntk.T)).T
        spread = symmetric_product(smoother, self.nngp_train_, reach.nngp)
        return TrainedDistribution(jnp.asarray(np.asarray(reach.ntk) @ self.dual_coef_), own.nngp + spread)

    def _left_out(self) -> LeftOut:
        return trained_left_out(self.filter_, self.nngp_train_, self.y_train_)


class _Conditioned(_WideNetwork):
    """Bayesian inference with random networks as the prior: the law governed by the NNGP kernel."""

    def _train(self, kernel, y):
        if not self.noise >= 0:
            raise ValueError(f"noise must be a variance, zero or more, got {self.noise}.")
        self.filter_ = factorise(kernel.nngp, self.noise, "the training NNGP kernel")
        self.dual_coef_ = self.filter_.solve(y)

    def _mean(self, X):
        return np.asarray(kernels(self.net_, X, self.X_train_).nngp) @ self.dual_coef_

    def _law(self, X):
        reach, own = kernels(self.net_, X, self.X_train_).nngp, kernels(self.net_, X).nngp
        half = self.filter_.half_solve(reach.T)
        return TrainedDistribution(jnp.asarray(np.asarray(reach) @ self.dual_coef_), own - half.T @ half)

    def _left_out(self) -> LeftOut:
        return posterior_left_out(self.filter_, self.noise, self.y_train_)


class _Regressor(RegressorMixin):
    """Predictions in the shape of the targets."""

    def fit(self, X, y) -> Self:
        """Fit to inputs (n, features) and targets (n,) or (n, outputs)."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        self._single_ = y.ndim == 1
        self._fit_outputs(X, y)
        return self

    def predict(self, X, return_std: bool = False, return_cov: bool = False):
        """Mean over networks; with `return_std` or `return_cov` also their spread.

        Returns
        -------
        mean
            (n,) or (n, outputs).
        std or cov
            (n,) or (n, n): over networks, the same for every output.
        """
        X = self._inputs(X)
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not both.")
        if not (return_std or return_cov):
            return self._shaped(self._mean(X))
        law = self._law(X)
        return self._shaped(np.asarray(law.mean)), np.asarray(law.std if return_std else law.covariance)

    def sample_y(self, X, n_samples: int = 1, random_state=0):
        """Outputs of trained networks: (n, n_samples) or (n, outputs, n_samples)."""
        draws = _draws(self._law(self._inputs(X)), n_samples, random_state)
        return draws[:, 0] if self._single_ else draws

    def _shaped(self, mean):
        return mean[:, 0] if self._single_ else mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class _Classifier(ClassifierMixin):
    """One output per class, trained on centred one-hot labels; the largest output wins."""

    def fit(self, X, y) -> Self:
        """Fit to inputs (n, features) and class labels (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the {len(y)} rows of y hold one class, "
                f"{self.classes_[0]!r}."
            )
        self._fit_outputs(X, np.eye(len(self.classes_))[index] - 1 / len(self.classes_))
        self.label_noise_ = label_noise(self._left_out(), index)
        return self

    def decision_function(self, X):
        """Mean outputs, (n, classes); for two classes the difference, (n,)."""
        mean = self._mean(self._inputs(X))
        return mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean

    def predict(self, X, return_std: bool = False):
        """The class of largest mean output; with `return_std` also the outputs' spread over networks."""
        X = self._inputs(X)
        if not return_std:
            return self.classes_[np.argmax(self._mean(X), axis=1)]
        law = self._law(X)
        return self.classes_[np.argmax(law.mean, axis=1)], np.asarray(law.std)

    def predict_proba(self, X):
        """Probability of each class.

        The share of networks that elect it, after adding to their spread the label noise that makes
        training points, each left out in turn, most probable.
        """
        law = self._law(self._inputs(X))
        return winning_probability(np.asarray(law.mean, float), np.asarray(law.std, float) ** 2 + self.label_noise_)

    def sample_y(self, X, n_samples: int = 1, random_state=0):
        """Labels that single networks give: (n, n_samples)."""
        draws = _draws(self._law(self._inputs(X)), n_samples, random_state)
        return self.classes_[np.argmax(draws, axis=1)]


def _draws(law: TrainedDistribution, n: int, random_state) -> np.ndarray:
    seed = check_random_state(random_state).randint(2**31 - 1)
    return np.moveaxis(np.asarray(law.sample(jax.random.key(seed), n)), 0, -1)


class NTKRegressor(_Regressor, _Trained):
    """Regression by infinitely wide networks trained with gradient descent.

    Parameters
    ----------
    depth
        Number of affine layers.
    activation
        A name or an `Activation`.
    C_b, C_W
        Variances at initialisation. The defaults suit ReLU and inputs of any kind, zeros included; both
        None take the critical point of the activation.
    lambda_b, lambda_W
        Learning rates of biases and weights.
    ridge
        Added to the diagonal of the training NTK.
    algorithm
        `GradientDescent`, `GradientFlow` or `DirectOptimization`; None trains to the end.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 20)[:, None]
    >>> model = NTKRegressor(depth=3, activation="relu").fit(x[::2], np.sin(x[::2, 0]))
    >>> mean, std = model.predict(x, return_std=True)
    >>> bool(np.abs(mean - np.sin(x[:, 0])).max() < 0.2)
    True
    """

    def __init__(
        self, depth=3, activation="relu", C_b=0.1, C_W=2.0, lambda_b=1.0, lambda_W=1.0, ridge=1e-6, algorithm=None
    ):
        self.depth = depth
        self.activation = activation
        self.C_b = C_b
        self.C_W = C_W
        self.lambda_b = lambda_b
        self.lambda_W = lambda_W
        self.ridge = ridge
        self.algorithm = algorithm


class NTKClassifier(_Classifier, _Trained):
    """Classification by infinitely wide networks trained to the end with gradient descent.

    Parameters
    ----------
    depth, activation, C_b, C_W, lambda_b, lambda_W, ridge
        As in `NTKRegressor`.
    """

    def __init__(self, depth=3, activation="relu", C_b=0.1, C_W=2.0, lambda_b=1.0, lambda_W=1.0, ridge=1e-6):
        self.depth = depth
        self.activation = activation
        self.C_b = C_b
        self.C_W = C_W
        self.lambda_b = lambda_b
        self.lambda_W = lambda_W
        self.ridge = ridge


class NNGPRegressor(_Regressor, _Conditioned):
    """Regression by the posterior of infinitely wide random networks.

    Parameters
    ----------
    depth, activation, C_b, C_W
        The prior, as in `NTKRegressor`.
    noise
        Variance of the observation noise.
    """

    def __init__(self, depth=3, activation="relu", C_b=0.1, C_W=2.0, noise=1e-3):
        self.depth = depth
        self.activation = activation
        self.C_b = C_b
        self.C_W = C_W
        self.noise = noise


class NNGPClassifier(_Classifier, _Conditioned):
    """Classification by the posterior of infinitely wide random networks, on one-hot labels.

    Parameters
    ----------
    depth, activation, C_b, C_W, noise
        As in `NNGPRegressor`.
    """

    def __init__(self, depth=3, activation="relu", C_b=0.1, C_W=2.0, noise=1e-3):
        self.depth = depth
        self.activation = activation
        self.C_b = C_b
        self.C_W = C_W
        self.noise = noise
