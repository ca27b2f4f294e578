"""Deep linear networks of finite width as a scikit-learn estimator."""

from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from finitewidth._base.checks import check_positive, is_number
from finitewidth.architecture.mlp import MLP
from finitewidth.estimators.data_frames import apply_frame, fit_frame
from finitewidth.prediction.methods.bayesian.deep_linear.design import Design, design
from finitewidth.prediction.methods.bayesian.deep_linear.interpolation import interpolate
from finitewidth.prediction.methods.bayesian.deep_linear.noisy import noisy_posterior, with_noise
from finitewidth.prediction.methods.bayesian.deep_linear.scales import ScaleLattice
from finitewidth.prediction.selection.deep_linear import best_prior_variance
from finitewidth.statistics.exact.deep_linear import ChiSquareProduct

# The search for the noise covers these shares of the labels' variance, and this range of prior variances
# around the one of a network that is as large as the labels.
_NOISES, _PRIORS = (1e-6, 2.0), (1e-4, 1e4)


class DeepLinearRegressor(RegressorMixin, BaseEstimator):
    """Regression by the exact posterior of random deep linear networks of finite width.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; empty for Bayesian linear regression.
    C_W
        Variance of the (rescaled) weights in every layer; "auto" takes the one of largest evidence.
    noise
        Variance of the noise of the labels; "auto" takes the one of largest evidence. Zero means networks
        that fit the labels exactly, for at most as many points as features.
    fit_intercept
        Whether to fit a constant, which has no prior.

    Attributes
    ----------
    coef_, intercept_
        Posterior mean of the weights, and the constant.
    C_W_, noise_, log_evidence_
        The prior and the noise in use, and the log density of the labels under them.
    law_
        The posterior itself.
    """

    def __init__(self, hidden=(100, 100), C_W="auto", noise="auto", fit_intercept=True):
        self.hidden = hidden
        self.C_W = C_W
        self.noise = noise
        self.fit_intercept = fit_intercept

    def fit(self, X, y):
        """Fit to inputs (n, features) and targets (n,)."""
        X, self.preparation_ = fit_frame(X)
        checked: Any = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        X, y = checked
        self._check_settings()
        hidden = tuple(self.hidden)
        constant = bool(self.fit_intercept)
        data = design(X, y, constant=constant)
        self.C_W_, self.noise_ = self._chosen(hidden, X, y, data)
        net = MLP(hidden, "linear", 0.0, self.C_W_)
        self.law_ = (
            noisy_posterior(net, X, y, self.noise_, constant=constant)
            if self.noise_
            else interpolate(net, X, y, constant=constant)
        )
        self.log_evidence_ = self.law_.log_evidence
        self.coef_ = self.law_.weights
        self.intercept_ = data.offset - float(data.center @ self.coef_)
        return self

    def predict(self, X, return_std: bool = False, return_cov: bool = False):
        """Posterior mean (n,); with `return_std` or `return_cov` also the spread over networks."""
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not both.")
        check_is_fitted(self)
        inputs: Any = validate_data(self, apply_frame(X, self.preparation_), dtype=np.float64, reset=False)
        mean = self.law_.mean(inputs)
        if return_std:
            return mean, self.law_.std(inputs)
        return (mean, self.law_.covariance(inputs)) if return_cov else mean

    def _check_settings(self) -> None:
        if self.C_W != "auto":
            check_positive("C_W", self.C_W)
        if self.noise != "auto" and not (is_number(self.noise) and self.noise >= 0):
            raise ValueError(f'noise must be "auto" or a variance, zero or more, got {self.noise!r}.')

    def _chosen(self, hidden: tuple[int, ...], X, y, data: Design) -> tuple[float, float]:
        """The C_W and the noise that are given, or those of largest evidence."""
        layers = len(hidden) + 1
        size = float(data.labels @ data.labels + data.rest)
        # Labels that do not vary tell nothing about either.
        variance = size / data.points if size and len(data.d) else 1.0
        C_W, noise = self.C_W, self.noise
        if noise != "auto":
            if C_W != "auto":
                return float(C_W), float(noise)
            if not data.labels.any():
                return 1.0, float(noise)
            net = MLP(hidden, "linear", 0.0, 1.0)
            best = best_prior_variance(net, X, y, float(noise), constant=bool(self.fit_intercept))
            return best.C_W, float(noise)
        if not (size and len(data.d)):
            return (1.0 if C_W == "auto" else float(C_W)), 1.0
        lattice = ScaleLattice(ChiSquareProduct(hidden), data.points)
        unit = variance * data.points * data.features / float(data.d @ data.d)
        ranges = [np.log(np.array(_NOISES) * variance), np.log(np.array(_PRIORS) * unit)]
        free = 2 if C_W == "auto" else 1

        def loss(logs: np.ndarray) -> float:
            S = float(np.exp(logs[1])) if free == 2 else float(C_W) ** layers
            return -with_noise(S, lattice, data, float(np.exp(logs[0]))).log_evidence

        starts = [np.log([share * variance, unit])[:free] for share in (0.5, 0.01)]
        found = [
            minimize(
                loss,
                start,
                method="Nelder-Mead",
                bounds=ranges[:free],
                options={"xatol": 1e-3, "fatol": 1e-4},
            )
            for start in starts
        ]
        best = min(found, key=lambda run: run.fun).x
        return (float(np.exp(best[1] / layers)) if free == 2 else float(C_W)), float(np.exp(best[0]))
