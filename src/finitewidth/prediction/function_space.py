r"""Training in function space: the flow of the outputs under a constant kernel, for any loss.

Gradient flow of a linear model, or of an infinitely wide network, moves the outputs by
$\dot z_A=-\Theta_{AA}\,\partial L/\partial z_A$ on the training set A and by
$\dot z_B=-\Theta_{BA}\,\partial L/\partial z_A$ anywhere else. For half the sum of squares the answer is
closed (`GradientFlow`); for every other loss the equation is solved by diffrax.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers, check_positive, check_whole

ValueOf = Callable[[Array, Array], Array]


class FunctionSpaceTraining(NamedTuple):
    """Outputs along a flow.

    Attributes
    ----------
    times
        (times,)
    losses
        L at these times.
    train
        Outputs at the training points, (times, train, out).
    test
        Outputs at the test points, (times, test, out); None where none were asked for.
    """

    times: Float[np.ndarray, " times"]
    losses: Float[Array, " times"]
    train: Float[Array, "times train out"]
    test: Float[Array, "times test out"] | None


def train_in_function_space(
    kernel: Float[AnyArray, "... train train"],
    y: AnyArray,
    loss: ValueOf,
    at: Sequence[float | int] | np.ndarray,
    *,
    start: AnyArray | tuple[AnyArray, AnyArray],
    kernel_test_train: Float[AnyArray, "... test train"] | None = None,
    solver: diffrax.AbstractSolver | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 100_000,
) -> FunctionSpaceTraining:
    """Outputs during gradient flow of any loss, from the tangent kernel alone.

    Parameters
    ----------
    kernel
        Tangent kernel of the training points, (train, train), the same for every output, or of all pairs of
        outputs (out, out, train, train), as from `empirical_ntk`.
    y
        Labels in whatever form the loss takes; first axis the training points.
    loss
        A function of (outputs (train, out), y) that returns one number: the SUM over the training points, if
        times are to be those of `GradientFlow`.
    at
        Times, rising, zero or more.
    start
        Outputs at time zero at the training points (train, out), or a pair of these and of the outputs at the
        test points (test, out).
    kernel_test_train
        Between test and training points, (test, train) or (out, out, test, train); then `start` is a pair.
    solver
        Of diffrax: `Tsit5()` unless given. A flow that is stiff wants an implicit one, say `Kvaerno5()`.
    rtol, atol
        Error allowed per step, relative and absolute.
    max_steps
        After so many steps the solver gives up with an error.

    Examples
    --------
    >>> import jax.numpy as jnp, finitewidth as fw
    >>> squares = lambda f, y: 0.5 * jnp.sum((f - y) ** 2)
    >>> run = fw.train_in_function_space(
    ...     jnp.diag(jnp.array([1.0, 2.0])), jnp.zeros((2, 1)), squares, at=[0, 1], start=jnp.ones((2, 1))
    ... )
    >>> run.train[1, :, 0].round(4).tolist()       # exp(-1) and exp(-2)
    [0.3679, 0.1353]
    """
    check_positive("rtol", rtol)
    check_positive("atol", atol)
    check_whole("max_steps", max_steps)
    times = np.asarray(as_numbers("at", at), dtype=float)
    if (
        times.ndim != 1
        or not len(times)
        or times[0] < 0
        or not np.isfinite(times).all()
        or (np.diff(times) < 0).any()
    ):
        raise ValueError(f"at must be rising, finite times, zero or more, got {at!r}.")
    kernel, reach = _kernels(kernel, kernel_test_train)
    first = _start(start, kernel, reach)
    y = jnp.asarray(y)
    value = jax.eval_shape(loss, first[0], y)
    if getattr(value, "shape", None) != ():
        raise ValueError(f"loss must return one number, got shape {getattr(value, 'shape', None)}.")
    solver = diffrax.Tsit5() if solver is None else solver
    solution, losses = _flow(
        kernel, reach, y, loss, jnp.asarray(times), first, solver, (rtol, atol), max_steps
    )
    if bool(solution.result != diffrax.RESULTS.successful):
        raise ValueError(
            f"the flow was not solved up to time {times[-1]:g} within max_steps={max_steps}: take shorter "
            "times, or a solver for stiff flows, say diffrax.Kvaerno5()."
        )
    assert solution.ys is not None
    train, test = solution.ys
    return FunctionSpaceTraining(times, losses, train, None if reach is None else test)


@eqx.filter_jit
def _flow(kernel, reach, y, loss, times, first, solver, tolerances, max_steps):
    rtol, atol = tolerances

    def velocity(t, state, args):
        kernel, reach, y = args
        slope = jax.grad(loss)(state[0], y)
        return -_times(kernel, slope), None if reach is None else -_times(reach, slope)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity), solver, 0.0, jnp.maximum(times[-1], 1e-300), None, first,
        args=(kernel, reach, y), saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol, atol), max_steps=max_steps, throw=False,
    )  # fmt: skip
    assert solution.ys is not None
    return solution, jax.vmap(lambda f: loss(f, y))(solution.ys[0])


def _times(kernel: Array, slope: Float[Array, "train out"]) -> Float[Array, "n out"]:
    """What a kernel does with a slope of every training point and output."""
    return kernel @ slope if kernel.ndim == 2 else jnp.einsum("abij,jb->ia", kernel, slope)


def _kernels(kernel: AnyArray, reach: AnyArray | None) -> tuple[Array, Array | None]:
    kernel = as_numbers("kernel", kernel).astype(float)
    if kernel.ndim not in (2, 4) or kernel.shape[-1] != kernel.shape[-2]:
        raise ValueError(f"kernel must be (train, train) or (out, out, train, train), got {kernel.shape}.")
    if reach is None:
        return kernel, None
    reach = as_numbers("kernel_test_train", reach).astype(float)
    if reach.ndim != kernel.ndim or reach.shape[:-2] + reach.shape[-1:] != kernel.shape[:-1]:
        raise ValueError(
            f"kernel_test_train has shape {reach.shape}; beside a kernel {kernel.shape} it must be "
            f"{(*kernel.shape[:-2], 'test', kernel.shape[-1])}."
        )
    return kernel, reach


def _start(start: AnyArray | tuple, kernel: Array, reach: Array | None) -> tuple[Array, Array | None]:
    pair = start if isinstance(start, tuple) else (start, None)
    if len(pair) != 2 or (pair[1] is None) != (reach is None):
        raise ValueError(
            "start must be the outputs at the training points, and a pair with those at the test points "
            "where kernel_test_train is given, and only there."
        )
    sizes = (kernel.shape[-1], None if reach is None else reach.shape[-2])
    found = tuple(None if f is None else as_numbers("start", f).astype(float) for f in pair)
    for f, n in zip(found, sizes, strict=True):
        if f is not None and (
            f.ndim != 2 or f.shape[0] != n or (kernel.ndim == 4 and f.shape[1] != kernel.shape[0])
        ):
            raise ValueError(f"start has shape {f.shape}; {n} points of this kernel need ({n}, outputs).")
    assert found[0] is not None
    return found[0], found[1]
