"""`verify`: train real networks and compare them with their predicted law."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth._base.checks import as_precision, check_positive, check_whole
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.networks import hidden_widths, with_outputs
from finitewidth.networks.losses import as_loss
from finitewidth.networks.members import check_members
from finitewidth.networks.models import as_model
from finitewidth.networks.training.ensembles import Ensemble, train_ensemble
from finitewidth.networks.training.observables import TrainingLoss
from finitewidth.networks.training.optimizers import anchored_descent
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.prediction.law.methods import BayesianInference
from finitewidth.prediction.law.provenance import Provenance
from finitewidth.prediction.methods.infinite_width.curves import loss_curves
from finitewidth.prediction.predict import predict
from finitewidth.prediction.problem.data import as_targets
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.inputs import ArrayLike
from finitewidth.verification.overall import LawError, planned_networks
from finitewidth.verification.result import MeasuredCurves, Verification, left_out
from finitewidth.verification.stopping import Stop, stop

_RECORDS = 60
_NETWORKS = 200
# What enough networks notice, and how often their number is raised on the way there.
_DETECT, _EXTENSIONS = 0.05, 8


def verify(
    law: TrainedDistribution | LargeLaw,
    networks: int | Literal["enough"] | None = None,
    *,
    detect: float | None = None,
    key: PRNGKeyArray | None = None,
    y_test: ArrayLike | None = None,
    dtype: jnp.dtype | type | None = None,
    most_steps: int = 10_000,
    progress: bool = False,
    scheduler: str | None = None,
) -> Verification:
    """Draw and train real networks as a law says, and compare their mean and spread with it.

    Training to the end is cut off where the predicted mean moves no more than a tenth of a standard error;
    the networks are compared with the prediction for as many steps as they did. With a ridge and a correction
    for finite width they train on until moved features have at most a hundredth of their way to go, and are
    compared with the end itself.

    Parameters
    ----------
    law
        What `predict` returned, for any gradient algorithm and a random start.
    networks
        How many to train, at least 3 and at most ten million; 200 by default. "enough" trains as many as
        `detect` takes.
    detect
        Instead of a number of networks, the relative error of the predicted spread that they are to notice
        nineteen times in twenty; 0.05 for networks="enough".
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
    scheduler
        Address of a Dask scheduler whose workers train the networks; threads of this process by default.

    Returns
    -------
    Verification
        Differences in standard errors, tests of the whole, and what they could have seen; `print` it.

    Examples
    --------
    >>> import jax.numpy as jnp, finitewidth as fw
    >>> x = jnp.linspace(-1, 1, 4)[:, None]
    >>> net = fw.MLP(hidden=(256,), activation="erf", C_b=0.1, C_W=2.0)
    >>> law = fw.predict(net, x, jnp.sin(3 * x[:, 0]), jnp.array([[-0.5], [0.1]]), ridge=0.1)
    >>> check = fw.verify(law, networks=50)
    >>> check.agrees
    True
    """
    if isinstance(law, LargeLaw):
        raise TypeError(
            "law has no covariance of all test points, as its kernels were not held in memory: verify needs "
            'a law of fewer rows, or of solver="direct". finitewidth.verification.compare_outputs compares '
            "outputs of networks that you trained with its mean and variances."
        )
    if not isinstance(law, TrainedDistribution):
        given = getattr(law, "__name__", type(law).__name__)
        raise TypeError(f"law must be what finitewidth.predict returned, got {given}.")
    origin, algorithm = _trainable(law.provenance)
    networks, detect = _asked(networks, detect)
    check_whole("most_steps", most_steps)
    problem, ridge = origin.problem.computed(), origin.ridge
    settle = law.correction is not None and ridge > 0 and algorithm.converged
    count = networks or _planned(law, origin, detect)
    chosen = stop(problem, law, algorithm, ridge, count, most_steps, settle=settle)
    descent = chosen.algorithm
    at_stop = law
    if descent != algorithm and not settle:
        at_stop = predict(problem, None, None, None, descent, origin.order, ridge=ridge, method=origin.method)
    key = jax.random.key(0) if key is None else key
    settings = y_test, dtype, progress, scheduler
    ensemble = _train(problem, descent, ridge, count, key, *settings)
    result = _result(problem, origin, chosen, at_stop, ensemble, y_test)
    for _ in range(_EXTENSIONS if detect else 0):
        if result.detectable <= detect:
            break
        # Kernels of these networks differ more from each other than was planned for.
        more = math.ceil(1.05 * len(ensemble.outputs) * ((result.detectable / detect) ** 2 - 1))
        check_members("networks", len(ensemble.outputs) + more)
        other = jax.random.fold_in(key, len(ensemble.outputs))
        ensemble = _joined(ensemble, _train(problem, descent, ridge, more, other, *settings))
        result = _result(problem, origin, chosen, at_stop, ensemble, y_test)
    return result


def _asked(networks: Any, detect: Any) -> tuple[int | None, float]:
    """A number of networks, or None and what they are to notice."""
    if detect is not None:
        check_positive("detect", detect)
        if networks not in (None, "enough"):
            raise ValueError(
                f"give networks, a number, or detect; not both: got {networks!r} and {detect!r}."
            )
        return None, float(detect)
    if isinstance(networks, str):
        if networks != "enough":
            raise ValueError(f'networks must be a whole number or "enough", got {networks!r}.')
        return None, _DETECT
    networks = _NETWORKS if networks is None else networks
    check_members("networks", networks)
    if networks < 3:
        raise ValueError(f"networks must be at least 3 to have a spread, got {networks}.")
    return networks, 0.0


def _planned(law: TrainedDistribution, origin: Provenance, detect: float) -> int:
    """How many networks notice so much, as far as that is known before they are trained."""
    widths = hidden_widths(origin.problem.net, origin.problem.x_train.shape[1:])
    share = left_out(len(widths) + 1, min(widths), origin.order)
    covariance, (mean, errors) = np.asarray(law.covariance), sampling_errors(law)
    error = LawError.of(covariance, share, mean, errors)
    kurtosis = (len(widths) + 1) / min(widths)
    count = planned_networks(detect, covariance, law.mean.shape[1], kurtosis, error)
    check_members("networks", count)
    return count


def _joined(first: Ensemble, second: Ensemble) -> Ensemble:
    join = lambda a, b: np.concatenate([a, b])
    return first._replace(
        outputs=join(first.outputs, second.outputs),
        initial_outputs=join(first.initial_outputs, second.initial_outputs),
        losses=join(first.losses, second.losses),
        recorded={name: join(values, second.recorded[name]) for name, values in first.recorded.items()},
    )


def _trainable(origin: Provenance | None) -> tuple[Provenance, SpectralAlgorithm]:
    if origin is None:
        raise ValueError(
            "law does not say which networks to train: it must come from finitewidth.predict, outside of "
            "jax.jit, jax.grad and jax.vmap."
        )
    if isinstance(origin.algorithm, BayesianInference):
        raise ValueError("law is a posterior; verify needs a law of networks trained by gradient descent.")
    if not origin.random_start:
        raise ValueError("law starts at a given function; verify needs networks with a random start.")
    if not hidden_widths(origin.problem.net, origin.problem.x_train.shape[1:]):
        raise ValueError("the network has no hidden layer, so it has no width: there is nothing to verify.")
    return origin, origin.algorithm


def _train(
    problem: TrainingProblem,
    descent: GradientDescent,
    ridge: float,
    networks: int,
    key: PRNGKeyArray,
    y_test: ArrayLike | None,
    dtype: jnp.dtype | type | None,
    progress: bool,
    scheduler: str | None,
) -> Ensemble:
    net = with_outputs(problem.net, problem.y.shape[1], problem.x_train.shape[1:])
    precision = problem.y.dtype if dtype is None else as_precision(dtype)
    x, y, x_test = (a.astype(precision) for a in (problem.x_train, problem.y, problem.x_test))
    eta, steps = float(descent.eta), int(descent.steps)
    if ridge > 0:
        optimizer, learning_rate = anchored_descent(net, x.shape[1:], eta, ridge), None
    else:
        optimizer, learning_rate = "sgd", eta
    record = {}
    if y_test is not None:
        y_test = as_targets(y_test, len(x_test), precision, "y_test")
        record = {"test": TrainingLoss(as_model(net), as_loss("mse"), x_test, y_test)}
    return train_ensemble(
        net,
        key,
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
        scheduler=scheduler,
    )


def _result(
    problem: TrainingProblem,
    origin: Provenance,
    chosen: Stop,
    law: TrainedDistribution,
    ensemble: Ensemble,
    y_test: ArrayLike | None,
) -> Verification:
    descent, widths = chosen.algorithm, hidden_widths(problem.net, problem.x_train.shape[1:])
    predicted = loss_curves(problem, descent, ensemble.times.tolist(), y_test, ridge=origin.ridge)
    train, train_sem = _average(ensemble.losses / len(problem.y))
    test, test_sem = None, None
    if y_test is not None:
        test, test_sem = _average(ensemble.recorded["test"] / len(problem.x_test))
    mean_error, covariance_error = sampling_errors(law)
    return Verification(
        networks=len(ensemble.outputs),
        steps=int(descent.steps),
        eta=float(descent.eta),
        ridge=origin.ridge,
        distance_to_end=chosen.distance_to_end,
        unsettled=chosen.unsettled,
        order=origin.order,
        depth=len(widths) + 1,
        width=min(widths),
        predicted_mean=np.asarray(law.mean),
        predicted_std=np.asarray(law.std),
        predicted_correction=None if law.correction is None else np.asarray(law.mean_correction),
        infinite_std=None if law.correction is None else np.asarray(law.infinite_width.std),
        outputs=ensemble.outputs.astype(np.asarray(law.mean).dtype),
        predicted_loss=predicted,
        loss=MeasuredCurves(train, train_sem, test, test_sem),
        predicted_covariance=np.asarray(law.covariance),
        mean_error=mean_error,
        covariance_error=covariance_error,
    )


def sampling_errors(law: TrainedDistribution) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Standard errors of mean and covariance, None where nothing was sampled."""
    if law.correction is None:
        return None, None
    errors = law.mean_correction_error, law.covariance_correction_error
    return np.asarray(errors[0]), None if errors[1] is None else np.asarray(errors[1])


def _average(losses: Float[np.ndarray, "size times"]) -> tuple[np.ndarray, np.ndarray]:
    return losses.mean(axis=0), losses.std(axis=0, ddof=1) / math.sqrt(len(losses))
