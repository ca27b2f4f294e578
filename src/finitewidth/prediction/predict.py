"""`predict`: the distribution of trained networks."""

import dataclasses
import os
import warnings
from typing import Any, Literal, overload

import numpy as np
from jaxtyping import Array

from finitewidth._base.checks import check_ridge
from finitewidth._base.either import as_known, is_traced_number, traced, untraceable
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm, check_algorithm
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.expansion_range import ExpansionRange
from finitewidth.prediction.law.kink_range import KinkRange
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.prediction.law.methods import BayesianInference, Method, Progress
from finitewidth.prediction.law.numerical_error import check_rounding
from finitewidth.prediction.law.provenance import Provenance
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution
from finitewidth.prediction.methods.large.budget import check_memory, chosen_solver
from finitewidth.prediction.problem.data import Start
from finitewidth.prediction.problem.training_problem import TrainingProblem, checked_data
from finitewidth.statistics.wide.inputs import ArrayLike
from finitewidth.statistics.wide.rounding import kernel_rounding


@overload
def predict(
    net: Layer | TrainingProblem,
    x_train: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    x_test: ArrayLike | None = None,
    algorithm: SpectralAlgorithm | BayesianInference | None = None,
    order: int | str = 0,
    *,
    initial: Start | None = None,
    ridge: float | int | Array = 0.0,
    method: Method | None = None,
    progress: Progress | None = None,
    solver: Literal["auto", "direct"] = "auto",
) -> TrainedDistribution: ...


# Whoever names an iterative solver, a bound, a store or a scheduler expects rows beyond the memory.
@overload
def predict(
    net: Layer | TrainingProblem,
    x_train: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    x_test: ArrayLike | None = None,
    algorithm: SpectralAlgorithm | BayesianInference | None = None,
    order: int | str = 0,
    *,
    initial: Start | None = None,
    ridge: float | int | Array = 0.0,
    method: Method | None = None,
    progress: Progress | None = None,
    solver: str = "auto",
    memory: float | int | None = None,
    store: str | os.PathLike | None = None,
    scheduler: str | None = None,
) -> TrainedDistribution | LargeLaw: ...


def predict(
    net: Layer | TrainingProblem,
    x_train: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    x_test: ArrayLike | None = None,
    algorithm: SpectralAlgorithm | BayesianInference | None = None,
    order: int | str = 0,
    *,
    initial: Start | None = None,
    ridge: float | int | Array = 0.0,
    method: Method | None = None,
    progress: Progress | None = None,
    solver: str = "auto",
    memory: float | int | None = None,
    store: str | os.PathLike | None = None,
    scheduler: str | None = None,
) -> TrainedDistribution | LargeLaw:
    """Distribution, over initialisations, of the trained network's outputs at the test points.

    Parameters
    ----------
    net
        The network: architecture, initialisation and learning-rate tensor. Or a `TrainingProblem`, which
        holds network, data and kernels: x_train, y_train and x_test are then left out.
    x_train, y_train
        Inputs (train, features) and targets (train,) or (train, outputs).
    x_test
        Where to predict, (test, features).
    algorithm
        `GradientDescent(eta, steps)` (the default, run to the end), `GradientFlow(time)`,
        `DirectOptimization()` or `BayesianInference(noise)`.
    order
        0 for infinite width, 1 for the first correction in 1/width as well (activations without kinks), "1/2"
        for the first correction in 1/sqrt(width), which activations with kinks have (one hidden layer).
    initial
        A given starting function instead of a random one, or its outputs on (x_train, x_test).
    ridge
        Added to the diagonal of the training NTK: the strength r of a penalty r/2 |theta - theta(0)|^2
        on the distance that the parameters move.
    method
        How the correction is computed: `DenseTensors()` or `SampledNeurons(relative_error)`; without it
        the first for at most 14 points, training and test together, the second for more. For order="1/2"
        `KinkWindows(relative_error)`. `MeanField()` and `TrainedNetworks(k)` describe this width without an
        expansion, whatever the order.
    progress
        Called now and then while neurons are sampled, with the fraction of the work done, estimated, and the
        relative error so far, of the mean in the first half, of the variances in the second.
    solver
        "direct" holds the kernels in memory. "iterative" solves with tiles of them, "nystrom" with some
        columns only. "auto" is the first while its matrices fit into `memory`, and the second beyond.
    memory
        Bound in bytes; seven tenths of the free memory by default.
    store, scheduler
        Where the iterative solver keeps its tiles and who computes them, as in `large.gram`. Without a store
        they go to a scratch directory that is removed.

    Returns
    -------
    TrainedDistribution
        `mean` (test, out), `covariance` (test, test), `std`, `sample(key, n)`; `verify` checks it. With
        order=1 also `mean_correction`, `covariance_correction`, their standard errors, `origin`, `validity`.
        From an iterative solver a `LargeLaw`: `mean`, `variance` of some `rows`, and in `solve` how it was
        solved and how exact it is.

        Inside `jax.jit`, `jax.grad` and `jax.vmap` mean and covariance are differentiable in inputs, targets,
        ridge, the network's variances and rates, eta and time. Checks of values are passed over there: where
        the kernel is singular the law is NaN, and eta is not compared with its limit. Such a law has no
        provenance, so that `verify` does not know what to train.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> x = jnp.linspace(-1, 1, 8)[:, None]
    >>> net = fw.MLP(hidden=(64, 64), activation="relu", C_b=0.1, C_W=2.0)
    >>> law = fw.predict(net, x, jnp.sin(3 * x[:, 0]), x)
    >>> bool(jnp.max(law.std) < 1e-6)                 # training points are learnt
    True
    """
    if not _is_order(order):
        raise ValueError(
            f'order must be 0 (infinite width), 1 (first correction in 1/width) or "1/2" (in 1/sqrt(width), '
            f"for activations with kinks), got {order!r}."
        )
    if not is_traced_number(ridge):
        check_ridge(ridge)
    if algorithm is not None and not isinstance(algorithm, BayesianInference):
        check_algorithm(algorithm, "BayesianInference()")
    if method is not None and not isinstance(method, Method):
        raise ValueError(
            "method must be DenseTensors(), SampledNeurons(), KinkWindows(), MeanField() or "
            f"TrainedNetworks(), got {method!r}."
        )
    if method is not None and order and method.in_roots != (order == "1/2"):
        raise ValueError(
            f'order="1/2" is computed by KinkWindows(), and by it alone: got {order=}, {method=}.'
        )
    followed = traced(net, x_train, y_train, x_test, algorithm, ridge)
    if followed:
        _refuse_untraceable(algorithm, order, method, progress)
    if not isinstance(net, TrainingProblem):
        chosen, why = chosen_solver(solver, _length(x_train), _length(x_test), memory)
        if chosen != "direct" and followed:
            raise untraceable(f"solver={chosen!r} ({why})")
        if chosen != "direct":
            _refuse_at_size(chosen, why, algorithm, order, initial, method)
            settings = {"memory": check_memory(memory), "store": store, "scheduler": scheduler}
            return _large(net, (x_train, y_train, x_test), algorithm, ridge, chosen, why, settings)
    elif solver not in ("auto", "direct"):
        raise ValueError(
            f"a TrainingProblem holds its kernels: solver={solver!r} needs net and data instead."
        )
    if order and isinstance(net, Layer) and (method is None or method.expands):
        dense_stack(net, f"{order=}")
    problem = _problem(net, x_train, y_train, x_test)
    if isinstance(algorithm, BayesianInference):
        if is_traced_number(ridge) or ridge != 0 or initial is not None:
            raise ValueError(
                "ridge and initial belong to gradient descent; Bayesian inference takes noise only."
            )
        if order:
            raise ValueError(
                f"order={order!r} describes networks trained by gradient descent, not Bayesian inference."
            )
        if method is not None:
            raise ValueError("method belongs to gradient descent; Bayesian inference takes width instead.")
        training, law = algorithm, _posterior(problem, algorithm)
    else:
        training = algorithm or GradientDescent()
        finite = bool(order) or (method is not None and not method.expands)
        if finite and initial is not None:
            raise ValueError("finite width describes networks with a random start: leave out initial.")
        rounding = None if followed else kernel_rounding(problem.net, problem.x_train, problem.x_test)
        law = trained_distribution(problem, training, initial=initial, ridge=ridge, rounding=rounding)
        if law.numerical_error is not None:
            check_rounding(law.numerical_error, float(ridge), law.mean.dtype == np.float32)
        if finite:
            chosen_method = method or _method_of(order)
            correction = chosen_method.correct(
                problem, training, law, ridge=as_known(ridge), progress=progress
            )
            law = law.corrected(correction)
            if followed or traced(law):
                return law
            _warn_of_a_large_correction(law, correction.validity)
    if followed or traced(law):
        return law
    provenance = Provenance(problem, training, order, ridge, initial is None, method)
    return dataclasses.replace(law, provenance=provenance)


# Each way to compute a law is imported by those who ask for it.
def _posterior(problem: TrainingProblem, inference: BayesianInference) -> TrainedDistribution:
    from finitewidth.prediction.methods.bayesian.posterior import posterior

    law = posterior(problem, inference)
    if inference.width == "infinite":
        return law
    from finitewidth.prediction.methods.bayesian.scale_mixture import with_scales

    return with_scales(problem, inference.noise, law)


def _method_of(order: int | str) -> Method:
    """How a correction is computed when nobody says."""
    if order == "1/2":
        from finitewidth.prediction.methods.kinks.method import KinkWindows

        return KinkWindows()
    from finitewidth.prediction.methods.first_order.choice import ByNumberOfPoints

    return ByNumberOfPoints()


def _refuse_untraceable(algorithm: Any, order: int | str, method: Method | None, progress: Any) -> None:
    """Mean and covariance of an explicit problem can be followed; sampling and searching cannot."""
    asked = None
    if method is not None and not method.followed:
        asked = f"method={type(method).__name__}()"
    elif order == "1/2":
        asked = f"{order=}"
    elif isinstance(algorithm, BayesianInference) and algorithm.width == "finite":
        asked = 'width="finite"'
    elif progress is not None:
        asked = "progress"
    if asked:
        raise untraceable(asked)


def _warn_of_a_large_correction(
    law: TrainedDistribution, validity: ExpansionRange | KinkRange | None
) -> None:
    if validity is not None:
        validity.warn()
    negative = int(np.sum(np.diag(np.asarray(law.covariance)) < 0))
    if negative:
        warnings.warn(
            f"the expansion in 1/width is not small on this data: at this width the corrected variance is "
            f"negative at {negative} of {len(law.covariance)} test points, where std is 0.",
            stacklevel=3,
        )


def _is_order(order: Any) -> bool:
    whole = isinstance(order, int | np.integer) and not isinstance(order, bool)
    return order in (0, 1) if whole else isinstance(order, str) and order == "1/2"


def _length(x: ArrayLike | None) -> int:
    """Rows; what is no array is refused later, in words."""
    try:
        shape = () if x is None else np.shape(x)
    except ValueError:
        return 0
    return shape[0] if shape else 0


def _refuse_at_size(solver: str, why: str, algorithm: Any, order: Any, initial: Any, method: Any) -> None:
    """The iterative solvers describe networks of infinite width, trained to the end, from a random start."""
    asked = None
    if order or method is not None:
        asked = f"order={order!r}" if order else f"{method!r}"
    elif initial is not None:
        asked = "a given start"
    elif isinstance(algorithm, BayesianInference):
        asked = 'width="finite"' if algorithm.width == "finite" else None
    elif algorithm is not None and not algorithm.converged:
        asked = "training that stops before its end"
    if asked:
        raise ValueError(
            f"{asked} needs kernels in memory, and the solver is {solver!r} ({why}): give fewer rows, or "
            "more memory."
        )


def _large(
    net: Layer,
    data: tuple,
    algorithm: Any,
    ridge: float | int | Array,
    solver: str,
    why: str,
    settings: dict[str, Any],
) -> LargeLaw:
    # Only here: Zarr and tiles are not needed below.
    from finitewidth.prediction.methods.large.predict import predict_large

    x, y, x_test = checked_data(net, *data)
    if isinstance(algorithm, BayesianInference):
        governed, ridge = "nngp", algorithm.noise
    else:
        governed = "ntk"
    fit = predict_large(
        net, x, y, x_test, governed=governed, ridge=float(ridge), method=solver, why=why, **settings
    )
    return fit.law


def _problem(net: Layer | TrainingProblem, *data: Any) -> TrainingProblem:
    if not isinstance(net, TrainingProblem):
        return TrainingProblem.of(net, *data)
    if any(array is not None for array in data):
        raise ValueError("a TrainingProblem holds its data: leave out x_train, y_train and x_test.")
    return net.computed()
