"""Infinitely wide networks as scikit-learn estimators.

`NTKRegressor` and `NTKClassifier` predict with networks trained by gradient descent, `NNGPRegressor` and
`NNGPClassifier` with the posterior of random networks. Standard deviations are over networks. Everything
is computed in double precision.
"""

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from finitewidth._base.checks import is_number
from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.interface import check_algorithm
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.spec import network
from finitewidth.estimators.data_frames import apply_frame, fit_frame
from finitewidth.prediction.law.class_probabilities import label_noise, winning_probability
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.infinite_width.fitted_laws import (
    FittedLaw,
    Posterior,
    Strength,
    TrainedLaw,
)
from finitewidth.prediction.methods.large.budget import check_memory, chosen_solver
from finitewidth.prediction.problem.data import as_targets, warn_of_few_rows

if TYPE_CHECKING:
    from finitewidth.prediction.methods.large.fitted import LargeFittedLaw, Means


class _WideNetwork(BaseEstimator):
    """A network of infinite width with training data; what the labels are is left to the subclass."""

    depth: Any
    activation: Any
    C_b: Any
    C_W: Any
    net: Any
    solver: Any
    memory: Any
    store: Any
    scheduler: Any

    @abstractmethod
    def _learn(self, net: Layer, X, y, index) -> FittedLaw:
        """The law of networks that have seen these inputs and outputs, of the classes `index` if not None."""

    @abstractmethod
    def _learn_much(self, net: Layer, X, y, index, means: "Means") -> "LargeFittedLaw":
        """The same without their kernels in memory."""

    def _network(self) -> Layer:
        if self.net is not None:
            return self.net if isinstance(self.net, Layer) else network(self.net)
        if not (isinstance(self.depth, int | np.integer) and self.depth >= 1):
            raise ValueError(f"depth must be a whole number of affine layers, 1 or more, got {self.depth!r}.")
        rates = {name: value for name, value in self.get_params().items() if name.startswith("lambda_")}
        # Kernels of infinite width do not ask for widths: a width of 1 stands for any.
        return MLP((1,) * (self.depth - 1), self.activation, self.C_b, self.C_W, **rates)

    def _fit_outputs(self, X, y, index=None) -> None:
        targets = as_targets(y, len(X), X.dtype, "y")
        warn_of_few_rows(targets)
        self.net_ = self._network()
        solver, why = chosen_solver(self.solver, len(X), 0, self.memory)
        if solver == "direct":
            self.law_ = self._learn(self.net_, X, np.asarray(targets), index)
        else:
            # Only here: Zarr and tiles are not needed below.
            from finitewidth.prediction.methods.large.fitted import Means

            means = Means(solver, why, check_memory(self.memory), self.store, self.scheduler)
            self.law_ = self._learn_much(self.net_, X, np.asarray(targets), index, means)

    def _training_data(self, X, y, **checks: bool) -> tuple[Any, Any]:
        X, self.preparation_ = fit_frame(X)
        checked: Any = validate_data(self, X, y, dtype=np.float64, allow_nd=self.net is not None, **checks)
        return checked

    def _inputs(self, X) -> Any:
        """Inputs of the network, once checked and prepared; only these enter laws."""
        check_is_fitted(self)
        X = apply_frame(X, self.preparation_)
        return validate_data(self, X, dtype=np.float64, allow_nd=self.net is not None, reset=False)

    def _joint(self, inputs) -> TrainedDistribution:
        """The law of all inputs together."""
        if not isinstance(self.law_, FittedLaw):
            raise ValueError(
                "covariances and samples of networks need their kernels in memory, and this estimator was "
                f"fitted without: {self.law_.means.why}."
            )
        return self.law_.distribution(inputs)


class _Regressor(RegressorMixin, _WideNetwork):
    """Predictions in the shape of the targets."""

    def fit(self, X, y):
        """Fit to inputs (n, features), or what `net` takes, and targets (n,) or (n, outputs).

        A data frame with words, dates or gaps is prepared: see `preparation_`.
        """
        X, y = self._training_data(X, y, y_numeric=True, multi_output=True)
        self._fit_outputs(X, y)
        self._shape_ = y.shape[1:]
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
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not both.")
        inputs = self._inputs(X)
        if not (return_std or return_cov):
            return self.law_.mean(inputs).reshape(-1, *self._shape_)
        law = self.law_.distribution(inputs) if return_std else self._joint(inputs)
        mean = np.asarray(law.mean).reshape(-1, *self._shape_)
        return mean, np.asarray(law.std if return_std else law.covariance)

    def sample_y(self, X, n_samples: int = 1, random_state=0):
        """Outputs of trained networks: (n, n_samples) or (n, outputs, n_samples)."""
        draws = _draws(self._joint(self._inputs(X)), n_samples, random_state)
        return draws.reshape(len(draws), *self._shape_, n_samples)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class _Classifier(ClassifierMixin, _WideNetwork):
    """One output per class, trained on centred one-hot labels; the largest output wins."""

    def fit(self, X, y):
        """Fit to inputs (n, features), or what `net` takes, and class labels (n,).

        A data frame with words, dates or gaps is prepared: see `preparation_`.
        """
        X, y = self._training_data(X, y)
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the {len(y)} rows of y hold one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        self._fit_outputs(X, np.eye(len(self.classes_))[index] - 1 / len(self.classes_), index)
        self.label_noise_ = self._label_noise(index)
        return self

    def _label_noise(self, index) -> float:
        law = self.law_
        if isinstance(law, FittedLaw):
            return label_noise(law.left_out(), index).variance
        # Nystrom's method has no variances of networks, so that no training row can be left out.
        return label_noise(law.left_out, index[law.held]).variance if len(law.held) else math.nan

    def decision_function(self, X):
        """Mean outputs, (n, classes); for two classes the difference, (n,)."""
        inputs = self._inputs(X)
        mean = self.law_.mean(inputs)
        return mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean

    def predict(self, X, return_std: bool = False):
        """The class of largest mean output; with `return_std` also the outputs' spread over networks."""
        inputs = self._inputs(X)
        if not return_std:
            return self.classes_[np.argmax(self.law_.mean(inputs), axis=1)]
        law = self.law_.distribution(inputs)
        return self.classes_[np.argmax(law.mean, axis=1)], np.asarray(law.std)

    def predict_proba(self, X):
        """Probability of each class.

        The share of networks that elect it, after adding to their spread the label noise that makes
        training points, each left out in turn, most probable.
        """
        inputs = self._inputs(X)
        law = self.law_.distribution(inputs)
        return winning_probability(np.asarray(law.mean), np.asarray(law.std) ** 2 + self.label_noise_)

    def sample_y(self, X, n_samples: int = 1, random_state=0):
        """Labels that single networks give: (n, n_samples)."""
        draws = _draws(self._joint(self._inputs(X)), n_samples, random_state)
        return self.classes_[np.argmax(draws, axis=1)]


def _strength(name: str, value: Any) -> Strength:
    """A ridge or a noise: zero or more, or the word for one chosen from the training data."""
    if (is_number(value) and 0 <= value < np.inf) or (isinstance(value, str) and value == "auto"):
        return value
    raise ValueError(f'{name} must be "auto" or a number, zero or more, got {value!r}.')


def _draws(law: TrainedDistribution, n: int, random_state) -> np.ndarray:
    """Outputs of n networks, (test, out, n)."""
    seed = check_random_state(random_state).randint(2**31 - 1)
    return np.moveaxis(np.asarray(law.sample(jax.random.key(seed), n)), 0, -1)


class _Trained(_WideNetwork):
    """Networks trained by gradient descent, to the end unless an algorithm says otherwise."""

    algorithm: Any = None

    def __init__(
        self,
        depth=3,
        activation="relu",
        C_b=0.1,
        C_W=2.0,
        lambda_b=1.0,
        lambda_W=1.0,
        ridge=1e-6,
        net=None,
        solver="auto",
        memory=None,
        store=None,
        scheduler=None,
    ):
        self.depth = depth
        self.activation = activation
        self.C_b = C_b
        self.C_W = C_W
        self.lambda_b = lambda_b
        self.lambda_W = lambda_W
        self.ridge = ridge
        self.net = net
        self.solver = solver
        self.memory = memory
        self.store = store
        self.scheduler = scheduler

    def _learn(self, net: Layer, X, y, index) -> FittedLaw:
        algorithm = DirectOptimization() if self.algorithm is None else self.algorithm
        check_algorithm(algorithm)
        law = TrainedLaw.of(net, X, y, algorithm, _strength("ridge", self.ridge), index)
        self.ridge_ = law.ridge
        return law

    def _learn_much(self, net: Layer, X, y, index, means: "Means") -> "LargeFittedLaw":
        from finitewidth.prediction.methods.large.fitted import LargeFittedLaw
        from finitewidth.prediction.methods.large.subset import ridge_by_some_rows, rows_to_choose_on

        algorithm = DirectOptimization() if self.algorithm is None else self.algorithm
        check_algorithm(algorithm)
        if not algorithm.converged:
            raise ValueError(
                f"training that stops before its end needs kernels in memory, and the solver is "
                f"{means.solver!r} ({means.why}): give fewer rows, or more memory."
            )
        self.ridge_ = _strength("ridge", self.ridge)
        if self.ridge_ == "auto":
            rows = rows_to_choose_on(len(X), means.memory)
            self.ridge_ = ridge_by_some_rows(net, X, y, algorithm, index, rows).ridge
        return LargeFittedLaw.of(net, X, y, "ntk", float(self.ridge_), means)


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
        Added to the diagonal of the training NTK; "auto" takes the one under which training points, each left
        out in turn, are predicted best (none if `algorithm` stops before the end).
    algorithm
        `GradientDescent`, `GradientFlow` or `DirectOptimization`; None trains to the end.
    net
        A network of layers, or plain data that `finitewidth.network` reads, in place of all settings of the
        network above.
    solver, memory, store, scheduler
        As in `predict`: beyond the rows whose kernels fit into memory, tiles of them and an iterative solver.
        An "auto" strength is then chosen on some of the rows, and standard deviations take a solve of their
        own; there are no covariances and no samples.

    Attributes
    ----------
    ridge_
        The ridge in use.

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
        self,
        depth=3,
        activation="relu",
        C_b=0.1,
        C_W=2.0,
        lambda_b=1.0,
        lambda_W=1.0,
        ridge=1e-6,
        algorithm=None,
        net=None,
        solver="auto",
        memory=None,
        store=None,
        scheduler=None,
    ):
        super().__init__(
            depth, activation, C_b, C_W, lambda_b, lambda_W, ridge, net, solver, memory, store, scheduler
        )
        self.algorithm = algorithm


class NTKClassifier(_Classifier, _Trained):
    """Classification by infinitely wide networks trained to the end with gradient descent.

    Parameters
    ----------
    depth, activation, C_b, C_W, lambda_b, lambda_W, ridge, net, solver, memory, store, scheduler
        As in `NTKRegressor`.
    """


class _Conditioned(_WideNetwork):
    """Random networks conditioned on the labels."""

    def __init__(
        self,
        depth=3,
        activation="relu",
        C_b=0.1,
        C_W=2.0,
        noise=1e-3,
        net=None,
        solver="auto",
        memory=None,
        store=None,
        scheduler=None,
    ):
        self.depth = depth
        self.activation = activation
        self.C_b = C_b
        self.C_W = C_W
        self.noise = noise
        self.net = net
        self.solver = solver
        self.memory = memory
        self.store = store
        self.scheduler = scheduler

    def _learn(self, net: Layer, X, y, index) -> FittedLaw:
        law = Posterior.of(net, X, y, _strength("noise", self.noise), index)
        self.noise_ = law.noise
        return law

    def _learn_much(self, net: Layer, X, y, index, means: "Means") -> "LargeFittedLaw":
        from finitewidth.prediction.methods.large.fitted import LargeFittedLaw
        from finitewidth.prediction.methods.large.subset import noise_by_some_rows, rows_to_choose_on

        self.noise_ = _strength("noise", self.noise)
        if self.noise_ == "auto":
            self.noise_ = noise_by_some_rows(net, X, y, index, rows_to_choose_on(len(X), means.memory))
        return LargeFittedLaw.of(net, X, y, "nngp", float(self.noise_), means)


class NNGPRegressor(_Regressor, _Conditioned):
    """Regression by the posterior of infinitely wide random networks.

    Parameters
    ----------
    depth, activation, C_b, C_W, net, solver, memory, store, scheduler
        The prior, and how it is solved, as in `NTKRegressor`.
    noise
        Variance of the observation noise; "auto" takes the one under which training points, each left out in
        turn, are most probable. `noise_` is the one in use.
    """


class NNGPClassifier(_Classifier, _Conditioned):
    """Classification by the posterior of infinitely wide random networks, on one-hot labels.

    Parameters
    ----------
    depth, activation, C_b, C_W, noise, net, solver, memory, store, scheduler
        As in `NNGPRegressor`.
    """
