"""The distribution of trained networks at each test point by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.prediction.law.numerical_error import NumericalError


class PointwiseLaw(eqx.Module):
    """Mean and variance over initialisations at every test point, at infinite width.

    For many test points: there is no covariance between them.

    Attributes
    ----------
    mean
        (test, out)
    variance
        (test,), of every output component; rounding may leave it a little below zero.
    numerical_error
        What rounding makes of both, estimated; None where nobody asked.
    """

    mean: Float[Array, "test out"]
    variance: Float[Array, " test"]
    numerical_error: NumericalError | None = None

    @property
    def std(self) -> Float[Array, " test"]:
        """Standard deviation over initialisations at each test point."""
        return jnp.sqrt(jax.nn.relu(self.variance))

    @property
    def correction(self) -> None:
        """None: this is the law of infinite width."""
        return None

    @property
    def infinite_width(self) -> "PointwiseLaw":
        """This law."""
        return self
