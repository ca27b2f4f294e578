"""The distribution of trained networks at a set of test points."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.prediction.recipe import Recipe


class TrainedDistribution(eqx.Module):
    """Mean and covariance over initialisations of the trained network's outputs.

    The outputs of one network at the test points are jointly Gaussian at infinite width; different
    output components are independent and share one covariance.

    Attributes
    ----------
    mean
        (test, out)
    covariance
        (test, test), of every output component.
    recipe
        Network, data and training, when the law comes from `predict`: what `verify` trains.
    """

    mean: Float[Array, "test out"]
    covariance: Float[Array, "test test"]
    recipe: Recipe | None = None

    @property
    def std(self) -> Float[Array, " test"]:
        """Standard deviation over initialisations at each test point."""
        return jnp.sqrt(jnp.maximum(jnp.diag(self.covariance), 0))

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n test out"]:
        """Outputs of n trained networks at the test points."""
        test, out = self.mean.shape
        eigenvalues, eigenvectors = jnp.linalg.eigh(self.covariance)
        root = eigenvectors * jnp.sqrt(jnp.maximum(eigenvalues, 0))
        noise = jax.random.normal(key, (n, test, out), self.mean.dtype)
        return self.mean + jnp.einsum("ts,nso->nto", root, noise)

    def expected_loss(self, y: Float[Array, "test out"]) -> Float[Array, ""]:
        """E of half the sum of squared errors at the test points, over initialisations."""
        bias = jnp.sum((self.mean - y) ** 2)
        return 0.5 * (bias + self.mean.shape[1] * jnp.trace(self.covariance))
