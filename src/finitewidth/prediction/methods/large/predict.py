"""Predictions from many rows: solved, checked, and said how exact they are."""

import os
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth.architecture.layer import Layer
from finitewidth.large.solvers.pcg import Solution
from finitewidth.prediction.law.large_law import LargeLaw, SolveReport
from finitewidth.prediction.methods.large.progress import Announce, silent
from finitewidth.prediction.methods.large.system import Governed, LargeSystem, some_rows
from finitewidth.prediction.problem.leave_one_out import LeftOut

PROBES = 64
TOLERANCE = 1e-4
# Training rows that are left out, one at a time, to see how far each is missed.
LEFT_OUT = 128


class LargeFit(NamedTuple):
    """A law, predictions at some training rows by networks that have not seen them, and the leading modes.

    `power` is the share of the target in the modes so far.
    """

    law: LargeLaw
    held: Int[np.ndarray, " held"]
    left_out: LeftOut
    eigenvalues: Float[np.ndarray, " modes"]
    power: Float[np.ndarray, " modes"]
    coefficients: Float[np.ndarray, "train out"]


def predict_large(
    net: Layer,
    x: Float[AnyArray, "train ..."],
    y: Float[AnyArray, "train out"],
    x_test: Float[AnyArray, "test ..."],
    *,
    governed: Governed,
    ridge: float,
    method: str,
    why: str,
    memory: int,
    store: str | os.PathLike | None = None,
    scheduler: str | None = None,
    tolerance: float = TOLERANCE,
    announce: Announce = silent,
    leave_out: bool = False,
) -> LargeFit:
    """Mean at all test rows and variances at some, for networks trained to the end or their posterior.

    With `leave_out` the same sweeps also predict some training rows by networks that have not seen them.
    """
    y, n = np.asarray(y, float), len(x)
    held = some_rows(n, LEFT_OUT) if leave_out and method == "iterative" else np.empty(0, int)
    rows = some_rows(len(x_test), PROBES if method == "iterative" else 0)
    with LargeSystem(
        net, x, governed, ridge,
        outputs=y.shape[1] + len(rows) + len(held), memory=memory, store=store, scheduler=scheduler,
        announce=announce, low_rank_only=method == "nystrom",
    ) as system:  # fmt: skip
        bound, variance, left_out = np.nan, np.empty(0), LeftOut(np.empty((0, y.shape[1])), np.empty(0))
        if method == "nystrom":
            solved = Solution(system.nystrom(y), y[:0], np.full(1, np.nan), 0, True, False)
        else:
            solved, found = system.solve_with_probes(y, np.asarray(x_test)[rows], held, tolerance)
            # Without test points there is nothing to certify.
            longest = found.lengths.max() if len(rows) else np.nan
            variance = found.variance
            bound = float(longest * np.linalg.norm(solved.remainder, axis=0).max())
            missed = solved.x[held] / found.diagonal[:, None]
            left_out = LeftOut(y[held] - missed, found.left_out_variance)
        coefficients = solved.x
        mean = system.mean_at(x_test, coefficients) if len(x_test) else np.empty((0, y.shape[1]))
        precision = np.dtype(system.program.points.x.dtype).name
        report = SolveReport(
            method=method,
            why=why,
            rank=system.rank,
            iterations=solved.iterations,
            residual=float(solved.residuals.max()),
            bound=bound,
            probes=len(rows),
            tolerance=tolerance,
            converged=solved.converged,
            tiles=system.where if system.kernels else "not needed",
            precision=precision + (", products in float64" if solved.doubled else ""),
            seconds=system.stages.seconds,
            cpu_seconds=system.stages.cpu_seconds,
        )
        basis, squares = system.preconditioner.basis, system.preconditioner.squares
        inside = np.sum((basis.T @ y.astype(basis.dtype)).astype(float) ** 2, axis=1)
    law = LargeLaw(jnp.asarray(mean), rows, variance, report, float(ridge))
    return LargeFit(
        law, held, left_out, squares[::-1] / n, np.cumsum(inside[::-1]) / np.sum(y**2), coefficients
    )
