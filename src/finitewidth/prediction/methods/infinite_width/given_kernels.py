"""`predict_from_kernels`: trained outputs from kernels that come from anywhere."""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from finitewidth._base.arrays import as_matrix
from finitewidth._base.checks import as_numbers, check_ridge
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm, check_algorithm
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import BayesianInference
from finitewidth.prediction.law.numerical_error import check_rounding
from finitewidth.prediction.methods.bayesian.posterior import condition
from finitewidth.prediction.methods.infinite_width.trained import law_of_training
from finitewidth.prediction.problem.data import as_targets
from finitewidth.prediction.problem.training_problem import ProblemKernels
from finitewidth.statistics.wide.inputs import ArrayLike
from finitewidth.statistics.wide.kernels import Kernels
from finitewidth.statistics.wide.rounding import KernelRounding

AnyKernel = Kernels | ArrayLike


def predict_from_kernels(
    train: AnyKernel,
    test_train: AnyKernel,
    test: AnyKernel | None,
    y_train: ArrayLike,
    algorithm: SpectralAlgorithm | BayesianInference | None = None,
    *,
    initial: tuple[ArrayLike, ArrayLike] | None = None,
    ridge: float | int = 0.0,
) -> TrainedDistribution:
    r"""Trained outputs from kernels that are given: of a model of your own, of one real network, of a file.

    Parameters
    ----------
    train, test_train, test
        Kernels (train, train), (test, train) and (test, test). A pair `Kernels(nngp, ntk)` has the covariance
        of the random start and the kernel that trains it. One array is both for `BayesianInference`, which
        trains nothing; otherwise it is the kernel that trains, of outputs (points, points) or of all their
        pairs (out, out, points, points), as from `empirical_ntk`, and the start must be given. `test` may be
        None where a start is given.
    y_train
        Targets (train,) or (train, outputs).
    algorithm
        `GradientDescent(eta, steps)` (the default, run to the end), `GradientFlow(time)`,
        `DirectOptimization()` or `BayesianInference(noise)`.
    initial
        Outputs at the start, at the training and at the test points: (train, out) and (test, out).
    ridge
        Added to the diagonal of the training NTK.

    Returns
    -------
    TrainedDistribution
        `mean` (test, out) and `covariance` (test, test), which is zero for a given start.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> x = jnp.linspace(-1, 1, 6)[:, None]
    >>> net, y = fw.MLP((64,), "relu", C_b=0.1, C_W=2.0), jnp.sin(x)
    >>> k = fw.kernels(net, x)
    >>> law = fw.predict_from_kernels(k, k, k, y)
    >>> bool(jnp.max(jnp.abs(law.mean - y)) < 1e-6)
    True
    """
    check_ridge(ridge)
    if isinstance(algorithm, BayesianInference):
        if algorithm.width != "infinite":
            raise ValueError('width="finite" needs the network: use predict.')
        if ridge != 0 or initial is not None:
            raise ValueError(
                "ridge and initial belong to gradient descent; Bayesian inference takes noise only."
            )
        given = _checked(train, test_train, test, "nngp")
        y = as_targets(y_train, len(given[0]), given[0].dtype)
        return condition(*given, y, algorithm.noise, KernelRounding.of_digits(y.dtype).nngp)
    if algorithm is not None:
        check_algorithm(algorithm, "BayesianInference()")
    algorithm = algorithm or GradientDescent()
    if initial is None:
        if not all(isinstance(kernel, Kernels) for kernel in (train, test_train, test)):
            raise ValueError(
                "a random start needs its covariance as well as the kernel that trains it: pass all three "
                "kernels as Kernels(nngp, ntk), or a start as initial."
            )
        nngp, ntk = (_checked(train, test_train, test, which) for which in ("nngp", "ntk"))
        held = ProblemKernels(*map(Kernels, nngp, ntk))
        y = as_targets(y_train, len(held.train.ntk), held.train.ntk.dtype)
        return _checked_law(held, y, algorithm, None, float(ridge))
    return _from_a_start(train, test_train, y_train, algorithm, initial, float(ridge))


def _from_a_start(
    train: AnyKernel,
    test_train: AnyKernel,
    y_train: ArrayLike,
    algorithm: SpectralAlgorithm,
    initial: tuple[ArrayLike, ArrayLike],
    ridge: float,
) -> TrainedDistribution:
    square, reach = _part("train", train, "ntk"), _part("test_train", test_train, "ntk")
    (points, tests), dtype = (square.shape[-1], reach.shape[-2]), square.dtype
    _check_shapes(square, reach)
    y = as_targets(y_train, points, dtype)
    if not isinstance(initial, tuple | list) or len(initial) != 2:
        raise ValueError("initial must be two arrays, outputs at the training and at the test points.")
    start = (
        as_targets(initial[0], points, dtype, "initial[0]"),
        as_targets(initial[1], tests, dtype, "initial[1]"),
    )
    if any(f.shape[1] != y.shape[1] for f in start):
        raise ValueError(
            f"initial has {start[0].shape[1]} and {start[1].shape[1]} outputs and y_train has {y.shape[1]}; "
            "they must agree."
        )
    nothing = jnp.zeros((0, 0), dtype)
    if square.ndim == 2:
        held = ProblemKernels(Kernels(nothing, square), Kernels(nothing, reach), Kernels(nothing, nothing))
        return _checked_law(held, y, algorithm, start, ridge)
    if square.shape[0] != y.shape[1]:
        raise ValueError(
            f"train has {square.shape[0]} outputs and y_train has {y.shape[1]}; they must agree."
        )
    rows = lambda f: f.T.reshape(-1, 1)
    held = ProblemKernels(
        Kernels(nothing, jnp.asarray(as_matrix(square))),
        Kernels(nothing, jnp.asarray(as_matrix(reach))),
        Kernels(nothing, nothing),
    )
    law = _checked_law(held, rows(y), algorithm, (rows(start[0]), rows(start[1])), ridge)
    mean = law.mean.reshape(-1, tests).T
    return TrainedDistribution(mean, jnp.zeros((tests, tests), dtype), numerical_error=law.numerical_error)


def _checked_law(
    held: ProblemKernels,
    y: Array,
    algorithm: SpectralAlgorithm,
    start: tuple[Array, Array] | None,
    ridge: float,
) -> TrainedDistribution:
    """With its numerical error, of kernels that are exact to their last digit."""
    law = law_of_training(held, y, algorithm, start, ridge, rounding=KernelRounding.of_digits(y.dtype))
    if law.numerical_error is not None:
        check_rounding(law.numerical_error, ridge, y.dtype == np.float32)
    return law


def _checked(
    train: AnyKernel, test_train: AnyKernel, test: AnyKernel | None, which: str
) -> tuple[Array, Array, Array]:
    if test is None:
        raise ValueError("test is None: the spread at the test points needs their kernel (test, test).")
    found = (_part("train", train, which), _part("test_train", test_train, which), _part("test", test, which))
    if any(kernel.ndim != 2 for kernel in found):
        raise ValueError("kernels of all pairs of outputs have no common prior: pass initial, or (n1, n2).")
    _check_shapes(*found)
    return found


def _check_shapes(train: Array, test_train: Array, test: Array | None = None) -> None:
    points, tests = train.shape[-1], test_train.shape[-2]
    expected = {"train": (points, points), "test_train": (tests, points), "test": (tests, tests)}
    for name, kernel in (("train", train), ("test_train", test_train), ("test", test)):
        if kernel is not None and kernel.shape[-2:] != expected[name]:
            raise ValueError(
                f"{name} has shape {kernel.shape}; with train {train.shape} and test_train "
                f"{test_train.shape} it must end in {expected[name]}."
            )
    if train.ndim != test_train.ndim or train.shape[:-2] != test_train.shape[:-2]:
        raise ValueError(f"train has shape {train.shape} and test_train {test_train.shape}: outputs differ.")


def _part(name: str, kernel: AnyKernel, which: str) -> Array:
    array = as_numbers(name, getattr(kernel, which) if isinstance(kernel, Kernels) else kernel)
    array = array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
    if array.ndim not in (2, 4) or (array.ndim == 4 and array.shape[0] != array.shape[1]):
        raise ValueError(
            f"{name} must be a kernel (n1, n2), or of pairs of outputs (out, out, n1, n2), got {array.shape}."
        )
    if not isinstance(array, Tracer) and not np.isfinite(np.asarray(array)).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    return array
