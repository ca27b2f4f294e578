r"""What rounding makes of a law.

With $M = \Theta_{BA}A$ and $\alpha = Ay$, errors $\delta\Theta$ of a kernel's entries move the mean $My$
by $(\delta\Theta_{BA}-M\,\delta\Theta_{AA})\,\alpha$. Independent errors $\epsilon_{ij}$, symmetric and as
large as measured (`finitewidth.statistics.wide.rounding`), give it the variance

$$\sum_j\epsilon_{bj}^2\alpha_j^2
+\sum_{ij}\epsilon_{ij}^2\,(M_{bj}^2\alpha_i^2+M_{bj}\alpha_jM_{bi}\alpha_i).$$

The variance of a trained output moves in the same way, by $2\,\delta M\,c$ with $c=(K_{AA}M^T-K_{AB})_b$, so
that $2Ac$ takes the place of $\alpha$; errors of K itself come on top.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth._base.linalg.cholesky import SingularKernelError
from finitewidth.statistics.wide.rounding import Rounding

# Errors above this share of the mean are told, above all of it the mean is refused.
WARNED, REFUSED = 0.03, 1.0
# A mean that is small beside its labels, as where they cancel, is not asked for more digits than this.
_SMALL = 1e-3
# Of a factorisation: standard deviation of an entry of its backward error, over eps and the root of its size.
_FACTORISATION = 0.1
# Test points at which it is computed, and rows of the kernel at a time.
_PROBES, _ROWS = 32, 512
_REMEDY = 10

Solve = Callable[[Any], AnyArray]


def _as_array(number: Any) -> Array:
    return number if isinstance(number, Array) else jnp.asarray(number, float)


class NumericalError(eqx.Module):
    """Estimated errors from rounding of the law of infinite width, root mean squares over test points.

    Attributes
    ----------
    mean
        Of the means, in their units.
    variance
        Of the variances; their root is what a standard deviation near zero is known to.
    size
        Root mean square of the mean itself, or a thousandth of the labels' where that is more.
    entries
        Of the entries of the kernel that governs training, relative to its diagonal; for different inputs.
    repeated
        The same for inputs that nearly repeat each other.
    ridge
        One that would leave two digits or more.
    """

    # Numbers of JAX, so that a law passes through its transformations.
    mean: Float[Array, ""] = eqx.field(converter=_as_array)
    variance: Float[Array, ""] = eqx.field(converter=_as_array)
    size: Float[Array, ""] = eqx.field(converter=_as_array)
    entries: Float[Array, ""] = eqx.field(converter=_as_array)
    repeated: Float[Array, ""] = eqx.field(converter=_as_array)
    ridge: Float[Array, ""] = eqx.field(converter=_as_array)

    @property
    def share(self) -> float:
        """Error of the mean over its size."""
        return float(self.mean / self.size) if self.mean else 0.0


def check_rounding(error: NumericalError, given: float, single: bool, remedy: str = "ridge") -> None:
    """Refuse a mean without a digit, and warn of one with hardly any.

    `given` is the strength of the remedy so far, and `single` whether more precision is to be had.
    """
    if not np.isfinite(error.size):
        kind, more = ("float32", ", or pass inputs of float64") if single else ("float64", "")
        raise ValueError(f"the mean leaves the range of {kind}: divide y_train by a power of ten{more}.")
    if error.share <= WARNED:
        return
    help = [f"a {remedy} above {given:.1g}, say {error.ridge:.1g}"] if error.ridge > given else []
    help = (["inputs of float64"] if single else []) + help
    known = f"entries of the kernel are known to {max(error.entries, error.repeated):.1g} of its diagonal"
    advice = f": pass {' or '.join(help)}" if help else ""
    if error.share > REFUSED:
        raise SingularKernelError(
            f"rounding leaves nothing of the mean, whose error is about {error.share:.1g} times its size "
            f"({known}){advice}."
        )
    warnings.warn(
        f"rounding moves the mean by about {error.share:.1g} of its size ({known}){advice}.", stacklevel=3
    )


def numerical_error(
    governing: tuple[AnyArray, AnyArray, AnyArray],
    rounding: Rounding,
    prior: tuple[AnyArray, AnyArray, AnyArray] | None,
    prior_rounding: Rounding,
    smoother: Float[AnyArray, "test train"],
    solve: Solve,
    y: Float[AnyArray, "train out"],
    mean: Float[AnyArray, "test out"],
) -> NumericalError:
    """The errors of one law, at some of its test points.

    Parameters
    ----------
    governing, rounding
        The kernel that governs training, (train, train), (test, train) and (test, test), and how exact it is.
    prior, prior_rounding
        The same of the start's covariance; None for a given start, which has no spread.
    smoother, solve
        M, and what applies A.
    y, mean
        Labels less the outputs that training starts with, and the mean.
    """
    kernel, some = np.asarray(governing[0]), probes(len(smoother))
    M, reach = np.asarray(smoother)[some], np.asarray(governing[1])[some]
    scale = _scale(np.diag(kernel))
    known = np.size(governing[2]) > 0
    own = np.diag(governing[2])[some] if known else np.square(reach / scale).max(axis=1)
    spread = None
    if prior is not None:
        turned = np.asarray(prior[0]) @ M.T - np.asarray(prior[1])[some].T
        through = np.diag(prior[2])[some] + np.sum(M**2 * np.diag(prior[0]), axis=1)
        spread = Spread(turned, prior_rounding.typical * through)
    held = KernelParts(lambda part: kernel[part], np.diag(kernel), reach, own, M)
    return error_at_probes(held, rounding, solve, y, mean, spread)


class KernelParts(NamedTuple):
    """The kernel that governs training, by some rows at a time, and M, all at the probed test points.

    `diagonal` is that of the training points, `own` that of the probes.
    """

    rows: Callable[[slice], np.ndarray]
    diagonal: Float[np.ndarray, " train"]
    reach: Float[np.ndarray, "probes train"]
    own: Float[np.ndarray, " probes"]
    smoother: Float[np.ndarray, "probes train"]


class Spread(NamedTuple):
    """c, one column for every probe, and what errors of K itself make of their variances."""

    turned: Float[np.ndarray, "train probes"]
    own_error: Float[np.ndarray, " probes"]


def probes(tests: int) -> Int[np.ndarray, " probes"]:
    """The test points at which errors are computed."""
    return np.unique(np.linspace(0, tests - 1, _PROBES).astype(int))


def error_at_probes(
    held: KernelParts,
    rounding: Rounding,
    solve: Solve,
    y: Float[AnyArray, "train out"],
    mean: Float[AnyArray, "test out"],
    spread: Spread | None,
) -> NumericalError:
    """The same from what is known at the probes; without a `spread` variances are exact."""
    n, dtype = len(held.diagonal), held.smoother.dtype
    s, s_b = _scale(held.diagonal), _scale(held.own)
    backward = _FACTORISATION * float(np.finfo(dtype).eps) * np.sqrt(n)
    measured = rounding._replace(typical=float(np.hypot(rounding.typical, backward)))
    columns = [np.asarray(solve(np.asarray(y, dtype)))]
    outputs = columns[0].shape[1]
    if spread is not None:
        columns.append(2 * np.asarray(solve(spread.turned)))
    # Squares are taken of numbers near one.
    unit = float(s.max())
    every = s[:, None] * np.concatenate(columns, axis=1)
    units = np.array([_largest(every[:, :outputs]), _largest(every[:, outputs:])], float)
    every = every / np.repeat(units, [outputs, every.shape[1] - outputs])
    found = _variances(held, s, s_b, unit, measured, every, outputs)
    means, variances = unit * units[0] * np.sqrt(found[0]), unit * units[1] * np.sqrt(found[1])
    needed = _REMEDY * max(measured.repeated, measured.typical * np.sqrt(n)) * np.mean(s.astype(float) ** 2)
    return NumericalError(
        mean=_rms(means),
        variance=float(np.hypot(_rms(variances), 0.0 if spread is None else _rms(spread.own_error))),
        size=max(_rms(mean), _SMALL * _rms(y)),
        entries=float(measured.typical),
        repeated=float(measured.repeated),
        ridge=float(needed),
    )


def _scale(diagonal: np.ndarray) -> np.ndarray:
    """Roots of a kernel's diagonal, and one where it is zero."""
    return np.sqrt(np.where(diagonal > 0, diagonal, 1))


def _largest(values: np.ndarray) -> float:
    largest = float(np.abs(values).max(initial=0.0))
    return largest if largest > 0 else 1.0


def _variances(
    held: KernelParts,
    s: np.ndarray,
    s_b: np.ndarray,
    unit: float,
    rounding: Rounding,
    columns: np.ndarray,
    outputs: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Of the means (probes, out), and of the variances (probes,), whose column belongs to each."""
    scaled, columns = (held.smoother * (s / unit)).astype(float), columns.astype(float)
    squares, weights, own = columns**2, scaled**2, np.arange(len(scaled))
    reaching = rounding.of_entries(held.reach / np.outer(s_b, s))
    direct = (s_b.astype(float)[:, None] / unit) ** 2 * (reaching @ squares)
    pairs = [(b, o) for o in range(outputs) for b in own]
    pairs += [(b, outputs + b) for b in own] if columns.shape[1] > outputs else []
    rows, which = (np.array(index) for index in zip(*pairs, strict=True))
    products = scaled[rows] * columns.T[which]
    through, crossed = np.zeros(direct.shape), np.zeros(len(pairs))
    for start in range(0, len(s), _ROWS):
        part = slice(start, start + _ROWS)
        errors = rounding.of_entries(held.rows(part) / np.outer(s[part], s))
        # An entry of the diagonal is met once, not as one of a pair, and is not that of a repeated input.
        here = np.arange(start, start + len(errors))
        errors[here - start, here] = rounding.typical**2 / 2
        through += weights[:, part] @ (errors @ squares)
        crossed += np.einsum("pi,pi->p", products[:, part] @ errors, products)
    every = direct + through
    every[rows, which] += crossed
    every = np.maximum(every, 0)
    return every[:, :outputs], every[own, outputs + own] if columns.shape[1] > outputs else np.zeros(len(own))


def _rms(values: AnyArray | float) -> float:
    values = np.asarray(values, dtype=float)
    unit = _largest(values)
    return unit * float(np.sqrt(np.mean(np.square(values / unit)))) if np.isfinite(unit) else np.inf
