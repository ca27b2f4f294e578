"""A law of many rows that predicts anywhere, for the estimators: solved once, asked many times."""

import os
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth.architecture.layer import Layer
from finitewidth.large.tile_program import KernelProgram
from finitewidth.prediction.law.large_law import LargeLaw, SolveReport
from finitewidth.prediction.methods.large.predict import TOLERANCE, predict_large
from finitewidth.prediction.methods.large.system import Governed, LargeSystem
from finitewidth.prediction.problem.leave_one_out import LeftOut


class Means(NamedTuple):
    """How many rows are to be solved: by which solver, why, in how much memory, and where the tiles are."""

    solver: str
    why: str
    memory: int
    store: str | os.PathLike | None
    scheduler: str | None


@dataclass(frozen=True)
class LargeFittedLaw:
    """Networks given many training rows.

    Means are cheap. Variances solve again, with tiles from the store, or computed anew where there is none.
    """

    net: Layer
    x: Float[AnyArray, "train ..."]
    governed_by: Governed
    strength: float
    means: Means
    coefficients: Float[np.ndarray, "train out"]
    solve: SolveReport
    held: Int[np.ndarray, " held"]
    left_out: LeftOut

    @classmethod
    def of(
        cls,
        net: Layer,
        x: Float[AnyArray, "train ..."],
        y: Float[AnyArray, "train out"],
        governed: Governed,
        strength: float,
        means: Means,
    ) -> "LargeFittedLaw":
        """Solve for the coefficients; `strength` is the ridge or the noise."""
        fit = predict_large(
            net, x, y, x[:0],
            governed=governed, ridge=strength, method=means.solver, why=means.why, memory=means.memory,
            store=means.store, scheduler=means.scheduler, tolerance=TOLERANCE, leave_out=True,
        )  # fmt: skip
        return cls(net, x, governed, strength, means, fit.coefficients, fit.law.solve, fit.held, fit.left_out)

    def mean(self, x: Float[AnyArray, "test ..."]) -> Float[np.ndarray, "test out"]:
        """Mean outputs at new inputs."""
        size = min(2048, len(self.x))
        return KernelProgram.of(self.net, self.x, size).reach(x, self.governed_by, self.coefficients)

    def distribution(self, x: Float[AnyArray, "test ..."]) -> LargeLaw:
        """Mean and variance at every new input."""
        if self.means.solver == "nystrom":
            raise ValueError(
                'solver="nystrom" has means only: standard deviations and probabilities need "iterative".'
            )
        # As many columns as at the fit, so that the same bound on memory leaves tiles of the same size.
        with LargeSystem(
            self.net,
            self.x,
            self.governed_by,
            self.strength,
            outputs=self.coefficients.shape[1] + len(self.held),
            memory=self.means.memory,
            store=self.means.store,
            scheduler=self.means.scheduler,
        ) as system:
            variance = system.variances_at(x)
        return LargeLaw(jnp.asarray(self.mean(x)), np.arange(len(x)), variance, self.solve, self.strength)
