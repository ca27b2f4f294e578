r"""The linear system of a prediction from many rows, $(\Theta+r)\,a = b$, without the matrix in memory.

Its tiles lie in a store, or are computed whenever they are used. Conjugate gradients with a preconditioner of
low rank solve it for all right-hand sides in one sweep through the tiles for each iteration.
"""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth._base.whole_files import scratch_folder
from finitewidth.architecture.layer import Layer
from finitewidth.large.gram import gram
from finitewidth.large.solvers.packed import Tiles, packed_product
from finitewidth.large.solvers.pcg import Solution, conjugate_gradients
from finitewidth.large.solvers.rpcholesky import Preconditioner, pivoted_cholesky
from finitewidth.large.solvers.tiled_cholesky import factor_bytes, tiled_cholesky
from finitewidth.large.tile_program import ComputedKernel, KernelProgram
from finitewidth.prediction.methods.large.budget import iterative_budget
from finitewidth.prediction.methods.large.progress import Announce, Stages, silent

Governed = Literal["ntk", "nngp"]
# Training rows for each point whose variance is wanted, below which a factor of the kernel, N^3 / 3, is
# cheaper than some fourteen sweeps of 2 N^2 for each point.
_ROWS_A_POINT = 80
# Below this ridge, relative to the diagonal, kernels rounded to single precision may lose their sign.
RIDGE_FOR_SINGLE = 3e-4
_SPARE_DISK = 1.1
# Relative residuals of test points, whose variance is a small difference of large numbers, and of training
# rows: conjugate gradients give their A_ii to second order in the residual.
_TOLERANCES = {"ntk": (1e-3, 0.03), "nngp": (1e-5, 1e-5)}
_FAR_ABOVE_ROUNDING = 1e-3


class Probes(NamedTuple):
    """Test points: variances and lengths |m*| of their weights. Training rows: A_ii, left-out variances."""

    variance: Float[np.ndarray, " k"]
    lengths: Float[np.ndarray, " k"]
    diagonal: Float[np.ndarray, " held"]
    left_out_variance: Float[np.ndarray, " held"]


class LargeSystem:
    """Kernels of many training rows and a preconditioner for them; close it to remove scratch files.

    Parameters
    ----------
    net, x
        The network and its training inputs (train, features), or (train, *positions, channels).
    governed
        "ntk" for networks trained by gradient descent, "nngp" for Bayesian inference.
    ridge
        Added to the diagonal: the ridge, or the noise.
    outputs
        Columns that will be solved for at a time.
    memory
        Bound in bytes.
    store, scheduler
        As in `large.gram`; without a store the tiles go to a scratch directory, if its disk has room.
    """

    def __init__(
        self,
        net: Layer,
        x: Float[AnyArray, "train ..."],
        governed: Governed,
        ridge: float,
        *,
        outputs: int,
        memory: int,
        store: str | os.PathLike | None = None,
        scheduler: str | None = None,
        announce: Announce = silent,
        low_rank_only: bool = False,
    ):
        self.stages, self.governed, self.ridge = Stages(announce), governed, float(ridge)
        self.outputs = outputs
        self.threads = len(os.sched_getaffinity(0))
        x = np.asarray(x)
        self.stages.begin("inputs")
        mean = self._mean_diagonal(net, x)
        if x.dtype == np.float64 and self.ridge >= RIDGE_FOR_SINGLE * mean:
            x = x.astype(np.float32)
        self.budget = iterative_budget(
            len(x), math.prod(x.shape[1:]), outputs, x.dtype.itemsize, self.threads, memory
        )
        self.program = KernelProgram.of(net, x, self.budget.tile)
        self.kernels: dict[str, Tiles] = {}
        with ExitStack() as scratch:
            if not low_rank_only:
                self._make_tiles(net, x, store, scheduler, scratch)
            self.stages.begin("preconditioner")
            low_rank = pivoted_cholesky(
                lambda rows: self.program.columns(rows, governed),
                np.asarray(getattr(self.program.diagonal, governed))[: len(x)],
                self.budget.rank,
                np.random.default_rng(0),
                lambda count: self.stages.done(count / self.budget.rank),
            )
            self.rank = len(low_rank.pivots)
            self._pivots = low_rank.pivots
            self._core = np.asarray(low_rank.factor[low_rank.pivots], float)
            self.preconditioner = Preconditioner.of(low_rank, self.ridge)
            self.stages.end()
            # From here on `close` removes what an error would have removed so far.
            self._scratch = scratch.pop_all()

    def _mean_diagonal(self, net: Layer, x: np.ndarray) -> float:
        """Of some rows: enough to choose a precision by."""
        few = x[:: max(1, len(x) // 256)][:256]
        return float(np.mean(getattr(KernelProgram.of(net, few, len(few)).diagonal, self.governed)))

    def _make_tiles(
        self, net: Layer, x: np.ndarray, store: Any, scheduler: str | None, scratch: ExitStack
    ) -> None:
        names = ("nngp", "ntk") if self.governed == "ntk" else ("nngp",)
        self.stages.begin("kernel tiles")
        if store is None:
            tiles = -(-len(x) // self.budget.tile)
            needed = len(names) * tiles * (tiles + 1) // 2 * self.budget.tile**2 * x.dtype.itemsize
            if shutil.disk_usage(tempfile.gettempdir()).free < _SPARE_DISK * needed:
                self.where = "computed in every sweep"
                self.kernels = {name: ComputedKernel(self.program, name) for name in names}
                return
            store = scratch.enter_context(scratch_folder()) / "kernels.zarr"
        self.where = f"in {store}"
        kept = gram(
            net, x, store, which=names, tile=self.budget.tile, scheduler=scheduler,
            progress=lambda done, total: self.stages.done(done / total),
        )  # fmt: skip
        self.kernels = {name: getattr(kept, name) for name in names}

    def __enter__(self) -> "LargeSystem":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Remove scratch files; the system cannot solve any more."""
        self.kernels = {}
        self._scratch.close()

    def product(self, V: Float[np.ndarray, "train k"], *, precise: bool) -> Float[np.ndarray, "train k"]:
        """Kernel plus ridge, times V."""
        found = packed_product(self.kernels[self.governed], V, precise=precise, threads=self.threads)
        return found + self.ridge * V

    def solve(
        self,
        right: Float[np.ndarray, "train k"],
        tolerance: Float[np.ndarray, " k"],
        stage: str,
        rough: Bool[np.ndarray, " k"] | None = None,
        precondition: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> Solution:
        """(kernel + ridge)^-1 times `right`, each column to its relative residual; `rough` as in `pcg`."""
        self.stages.begin(stage)
        farthest = -math.log(min(tolerance.min(), 0.5))

        def report(iterations: int, excess: float) -> None:
            share = 1 - math.log(max(excess, 1.0)) / farthest
            self.stages.done(min(max(share, 0.01), 1.0), f" (sweep {iterations})")

        found = conjugate_gradients(
            self.product,
            right,
            precondition or self.preconditioner.solve,
            tolerance,
            rough=rough,
            on_iteration=report,
        )
        self.stages.end()
        return found

    def nystrom(self, y: Float[np.ndarray, "train out"]) -> Float[np.ndarray, "train out"]:
        r"""Coefficients of ridge regression on the features $\phi(x) = L^{-1}k_S(x)$ of the pivots S.

        $F = K_{\cdot S}L^{-T}$ holds the features of the training rows, so the weights are
        $w = (F^TF+r)^{-1}F^Ty = W\frac{s}{s^2+r}U^Ty$, and the coefficients of the pivots $L^{-T}w$.
        """
        basis, squares, rotation, _ = self.preconditioner
        inside = (basis.T @ y.astype(basis.dtype)).astype(float)
        weights = rotation @ ((np.sqrt(squares) / (squares + self.ridge))[:, None] * inside)
        coefficients = np.zeros_like(y)
        coefficients[self._pivots] = np.linalg.lstsq(self._core.T, weights, rcond=1e-12)[0]
        return coefficients

    def mean_at(
        self, x: Float[AnyArray, "test ..."], coefficients: Float[np.ndarray, "train out"]
    ) -> Float[np.ndarray, "test out"]:
        """Kernels with the training rows, times coefficients."""
        self.stages.begin("test rows")
        found = self.program.reach(x, self.governed, coefficients, self.stages.done)
        self.stages.end()
        return found

    def variances_at(self, x: Float[AnyArray, "k ..."]) -> Float[np.ndarray, " k"]:
        """Variances at any number of points: by the preconditioner, or for many by a factor of the kernel."""
        with self._better_preconditioner(len(x)) as precondition:
            parts = [
                self._some_variances(x[start : start + self.outputs], precondition)
                for start in range(0, len(x), self.outputs)
            ]
        return np.concatenate([np.empty(0), *parts])

    @contextmanager
    def _better_preconditioner(self, points: int) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
        kernel = self.kernels[self.governed]
        needed = factor_bytes(kernel.n, kernel.size, kernel.dtype.itemsize)
        room = shutil.disk_usage(tempfile.gettempdir()).free >= _SPARE_DISK * needed
        if points * _ROWS_A_POINT < kernel.n or not room:
            yield self.preconditioner.solve
            return
        with scratch_folder() as folder:
            self.stages.begin("factor")
            try:
                factor = tiled_cholesky(
                    kernel, self.ridge, folder, threads=self.threads, on_row=self.stages.done
                )
            except np.linalg.LinAlgError:
                # Rounding has taken the sign of the smallest eigenvalues; the other one still works.
                factor = self.preconditioner
            self.stages.end()
            yield factor.solve

    def _some_variances(
        self, x: Float[AnyArray, "k ..."], precondition: Callable[[np.ndarray], np.ndarray]
    ) -> Float[np.ndarray, " k"]:
        columns, prior = self._columns_of(x)
        tolerance = _TOLERANCES[self.governed][0]
        found = self.solve(
            columns[self.governed],
            np.full(len(x), tolerance),
            "variances",
            np.full(len(x), tolerance >= _FAR_ABOVE_ROUNDING),
            precondition,
        )
        self._refuse_unsolved(found, tolerance)
        variance = prior - np.sum(found.x * columns["nngp"], axis=0)
        if self.governed == "ntk":
            through = packed_product(self.kernels["nngp"], found.x, threads=self.threads) - columns["nngp"]
            variance += np.sum(found.x * through, axis=0)
        return np.maximum(variance, 0)

    def _refuse_unsolved(self, found: Solution, tolerance: float) -> None:
        if not found.converged:
            raise ArithmeticError(
                f"the iteration ended at a residual of {found.residuals.max():.1g} after {found.iterations} "
                f"sweeps; {tolerance:.1g} was wanted: pass a larger ridge than {self.ridge:.1g}, or inputs "
                "in float64."
            )

    def solve_with_probes(
        self,
        y: Float[np.ndarray, "train out"],
        x: Float[AnyArray, "k ..."],
        rows: Int[np.ndarray, " held"],
        tolerance: float,
    ) -> tuple[Solution, "Probes"]:
        r"""Coefficients of y; variances at some test points, and what some training rows are worth.

        With $A = (\Theta+r)^{-1}$ and $m = A\theta_*$ a trained network has variance
        $K_{**} - 2 m\cdot k_* + m^T K m$, the posterior $K_{**} - m\cdot k_*$. Training row i, left out, is
        missed by $[Ay]_i/A_{ii}$, with variance $[AKA]_{ii}/A_{ii}^2$; for the posterior
        the label has variance $1/A_{ii}$. All right-hand sides are one block, so that a sweep serves all.
        """
        out, k, held = y.shape[1], len(x), len(rows)
        units = np.zeros((self.program.n, held))
        units[rows, np.arange(held)] = 1
        columns, prior = self._columns_of(x)
        wanted = _TOLERANCES[self.governed]
        found = self.solve(
            np.concatenate([y, columns[self.governed], units], axis=1),
            np.repeat([tolerance, *wanted], [out, k, held]),
            "coefficients and variances",
            rough=np.repeat([False, *(bound >= _FAR_ABOVE_ROUNDING for bound in wanted)], [out, k, held]),
        )
        self._refuse_unsolved(found, tolerance)
        weights = found.x[:, out:]
        m, diagonal = weights[:, :k], weights[rows, k + np.arange(held)]
        overlap = np.sum(m * columns["nngp"], axis=0)
        if self.governed == "nngp":
            variance, left_out = prior - overlap, 1 / diagonal - self.ridge
        else:
            self.stages.begin("variances")
            through = packed_product(self.kernels["nngp"], weights, threads=self.threads)
            forms = np.sum(weights * through, axis=0)
            variance, left_out = prior - 2 * overlap + forms[:k], forms[k:] / diagonal**2
            self.stages.end()
        solved = found._replace(
            x=found.x[:, :out], remainder=found.remainder[:, :out], residuals=found.residuals[:out]
        )
        lengths = np.linalg.norm(m, axis=0)
        return solved, Probes(np.maximum(variance, 0), lengths, diagonal, np.maximum(left_out, 0))

    def _columns_of(self, x: Float[AnyArray, "k ..."]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Kernels of the training rows with points, (train, k) by name, and NNGP kernels of those, (k,)."""
        if not len(x):
            return dict.fromkeys(self.kernels, np.empty((self.program.n, 0))), np.empty(0)
        others, own = self.program.others(x)
        columns = {name: np.empty((self.program.n, len(x))) for name in self.kernels}
        for name, found in columns.items():
            for rows, block in self.program.strips(others, name):
                found[rows] = block[:, : len(x)]
        return columns, np.asarray(own.nngp, float)


def some_rows(n: int, count: int) -> Int[np.ndarray, " count"]:
    """At most `count` of n rows, drawn once and for all, in order."""
    return np.sort(np.random.default_rng(0).permutation(n)[:count])
