"""`verify`: train real networks and compare them with their predicted law."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth.architecture import Layer
from finitewidth.architecture.networks import hidden_widths, with_outputs
from finitewidth.checks import as_precision, check_whole
from finitewidth.dynamics.algorithms import GradientDescent, SpectralAlgorithm
from finitewidth.networks.ensembles import Ensemble, train_ensemble
from finitewidth.networks.optimizers import anchored_descent
from finitewidth.prediction.curves import loss_curves
from finitewidth.prediction.data import as_targets
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.infinite_width import TrainingProblem
from finitewidth.prediction.methods import BayesianInference
from finitewidth.prediction.predict import predict
from finitewidth.prediction.recipe import Recipe
from finitewidth.statistics.inputs import ArrayLike
from finitewidth.verification.result import MeasuredCurves, Verification
from finitewidth.verification.stopping import Stop, stop

_RECORDS = 60


class _TestLoss(eqx.Module):
    """Loss per point at the test points, as a function of the parameters."""

    net: Layer
    x: Array
    y: Array

    def __call__(self, params: PyTree) -> Float[Array, ""]:
        return 0.5 * jnp.sum((self.net.apply(params, self.x) - self.y) ** 2) / len(self.x)


def verify(
    law: TrainedDistribution,
    networks: int = 200,
    *,
    key: PRNGKeyArray | None = None,
    y_test: ArrayLike | None = None,
    dtype: jnp.dtype | type | None = None,
    most_steps: int = 10_000,
    progress: bool = False,
) -> Verification:
    """Draw and train real networks as a law says, and compare their mean and spread with it.

    Training to the end is cut off where the predicted mean moves no more than a tenth of a standard error;
    the networks are always compared with the prediction for as many steps as they did.

    Parameters
    ----------
    law
        What `predict` returned, for any gradient algorithm and a random start.
    networks
        How many to train, at least 3.
    key
        A `jax.random` key that decides about all networks; `jax.random.key(0)` by default.
    y_test
        Targets at the test points, for the loss there during training.
    dtype
        Precision of the networks; that of the data by default. Single precision is faster, and its
        rounding far below the spread of networks.
    most_steps
        Where training to the end stops at the latest.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Verification
        Differences in standard errors; `print` it.

    Examples
    --------
    >>> import jax.numpy as jnp, finitewidth as fw
    >>> x = jnp.linspace(-1, 1, 4)[:, None]
    >>> net = fw.MLP(hidden=(256,), activation="relu", C_b=0.1, C_W=2.0)
    >>> law = fw.predict(net, x, jnp.sin(3 * x[:, 0]), jnp.array([[-0.5], [0.1]]))
    >>> check = fw.verify(law, networks=50)
    >>> check.agrees
    True
    """
    if not isinstance(law, TrainedDistribution):
        given = getattr(law, "__name__", type(law).__name__)
        raise TypeError(f"law must be what finitewidth.predict returned, got {given}.")
    recipe, algorithm = _trainable(law.recipe)
    check_whole("networks", networks)
    if networks < 3:
        raise ValueError(f"networks must be at least 3 to have a spread, got {networks}.")
    check_whole("most_steps", most_steps)
    problem = TrainingProblem.of(recipe.net, recipe.x_train, recipe.y_train, recipe.x_test)
    chosen = stop(problem, law, algorithm, recipe.ridge, networks, most_steps)
    descent = chosen.algorithm
    ensemble = _train(recipe, descent, networks, key, y_test, dtype, progress)
    at_stop = law if descent == algorithm else _stopped(recipe, descent)
    return _result(recipe, problem, chosen, at_stop, ensemble, y_test)


def _trainable(recipe: Recipe | None) -> tuple[Recipe, SpectralAlgorithm]:
    if recipe is None:
        raise ValueError("law does not say which networks to train: it must come from finitewidth.predict.")
    if isinstance(recipe.algorithm, BayesianInference):
        raise ValueError("law is a posterior; verify needs a law of networks trained by gradient descent.")
    if not recipe.random_start:
        raise ValueError("law starts at a given function; verify needs networks with a random start.")
    if not hidden_widths(recipe.net, recipe.x_train.shape[1:]):
        raise ValueError("the network has no hidden layer, so it has no width: there is nothing to verify.")
    return recipe, recipe.algorithm


def _stopped(recipe: Recipe, descent: GradientDescent) -> TrainedDistribution:
    data = (recipe.x_train, recipe.y_train, recipe.x_test)
    return predict(recipe.net, *data, descent, recipe.order, ridge=recipe.ridge, method=recipe.method)


def _train(
    recipe: Recipe,
    descent: GradientDescent,
    networks: int,
    key: PRNGKeyArray | None,
    y_test: ArrayLike | None,
    dtype: jnp.dtype | type | None,
    progress: bool,
) -> Ensemble:
    net = with_outputs(recipe.net, recipe.y_train.shape[1], recipe.x_train.shape[1:])
    precision = recipe.x_train.dtype if dtype is None else as_precision(dtype)
    x, y, x_test = (a.astype(precision) for a in (recipe.x_train, recipe.y_train, recipe.x_test))
    eta, steps = float(descent.eta), int(descent.steps)
    if recipe.ridge > 0:
        optimizer, learning_rate = anchored_descent(net, x.shape[1:], eta, recipe.ridge), None
    else:
        optimizer, learning_rate = "sgd", eta
    record = {}
    if y_test is not None:
        record = {"test": _TestLoss(net, x_test, as_targets(y_test, len(x_test), precision, "y_test"))}
    return train_ensemble(
        net,
        jax.random.key(0) if key is None else key,
        networks,
        x,
        y,
        x_test,
        steps=steps,
        learning_rate=learning_rate,
        optimizer=optimizer,
        record=record,
        record_every=max(1, steps // _RECORDS),
        progress=progress,
    )


def _result(
    recipe: Recipe,
    problem: TrainingProblem,
    chosen: Stop,
    law: TrainedDistribution,
    ensemble: Ensemble,
    y_test: ArrayLike | None,
) -> Verification:
    descent, widths = chosen.algorithm, hidden_widths(recipe.net, recipe.x_train.shape[1:])
    predicted = loss_curves(problem, descent, ensemble.times.tolist(), y_test, ridge=float(recipe.ridge))
    train, train_sem = _average(ensemble.losses / len(problem.y))
    test, test_sem = _average(ensemble.recorded["test"]) if y_test is not None else (None, None)
    return Verification(
        networks=len(ensemble.outputs),
        steps=int(descent.steps),
        eta=float(descent.eta),
        ridge=float(recipe.ridge),
        remaining=chosen.remaining,
        order=recipe.order,
        depth=len(widths) + 1,
        width=min(widths),
        predicted_mean=np.asarray(law.mean),
        predicted_std=np.asarray(law.std),
        predicted_correction=None if law.first_order is None else np.asarray(law.mean_correction),
        outputs=ensemble.outputs.astype(np.asarray(law.mean).dtype),
        predicted_loss=predicted,
        loss=MeasuredCurves(train, train_sem, test, test_sem),
    )


def _average(losses: Float[np.ndarray, "size times"]) -> tuple[np.ndarray, np.ndarray]:
    return losses.mean(axis=0), losses.std(axis=0, ddof=1) / math.sqrt(len(losses))
