"""The law of trained networks where no covariance of all test points can be held."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class SolveReport(eqx.Module):
    """How a large law was computed, and how exact it is.

    Attributes
    ----------
    method
        "iterative" or "nystrom".
    why
        Why not the direct solver.
    rank
        Columns of the preconditioner, or of the features of Nystrom's method.
    iterations
        Sweeps through the kernel for the mean.
    residual
        Largest |y - (kernel + ridge) a| / |y| over outputs, computed anew in double precision; for Nystrom's
        method that of its own system is zero, and this is NaN: the kernel itself was replaced.
    bound
        No mean at the probe points is further from the exact solution than this, |m*| |rho|; NaN for Nystrom.
    probes
        Number of probe points.
    tolerance, converged
        What the residual was to reach, and whether it did.
    tiles
        Where the kernel's tiles were.
    precision
        Of the tiles, and of products where single precision was not enough.
    seconds, cpu_seconds
        By stage.
    """

    method: str
    why: str
    rank: int
    iterations: int
    residual: float
    bound: float
    probes: int
    tolerance: float
    converged: bool
    tiles: str
    precision: str
    seconds: dict[str, float]
    cpu_seconds: dict[str, float]


class LargeLaw(eqx.Module):
    """Mean at every test point, and variances at some of them.

    Attributes
    ----------
    mean
        (test, out)
    rows
        Test points whose variance was computed.
    variance
        Theirs, over initialisations, of every output.
    solve
        How it was computed.
    ridge
        In use.
    """

    mean: Float[Array, "test out"]
    rows: Int[np.ndarray, " k"]
    variance: Float[np.ndarray, " k"]
    solve: SolveReport = eqx.field(static=True)
    ridge: float = eqx.field(static=True)

    @property
    def std(self) -> Float[Array, " test"]:
        """Standard deviation at each test point: its own at `rows`, elsewhere their root mean square."""
        typical = np.sqrt(self.variance.mean()) if len(self.variance) else np.nan
        every = np.full(len(self.mean), typical)
        every[self.rows] = np.sqrt(self.variance)
        return jnp.asarray(every)

    @property
    def correction(self) -> None:
        """None: at this size there is the law of infinite width."""
        return None

    @property
    def infinite_width(self) -> "LargeLaw":
        """This law."""
        return self

    @property
    def covariance(self) -> Float[Array, "test test"]:
        """Not to be had at this size."""
        raise AttributeError(
            "a law of so many rows has no covariance of all test points: variance has that of `rows`."
        )
