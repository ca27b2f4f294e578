r"""Explicit features and meta features for Taylor models: monomials, random Fourier features, mixtures."""

from itertools import combinations_with_replacement

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.arrays import AnyArray


class PolynomialFeatures(eqx.Module):
    """All monomials of the inputs up to a degree, the constant first.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> PolynomialFeatures(2)(jnp.array([[2.0, 3.0]])).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """

    degree: int = eqx.field(static=True)

    def __check_init__(self):
        if not isinstance(self.degree, int) or self.degree < 0:
            raise ValueError(f"degree must be a whole number, zero or more, got {self.degree!r}.")

    def __call__(self, x: Float[AnyArray, "n d"]) -> Float[Array, "n features"]:
        x = jnp.asarray(x)
        chosen = [
            list(c)
            for p in range(self.degree + 1)
            for c in combinations_with_replacement(range(x.shape[1]), p)
        ]
        return jnp.stack([jnp.prod(x[:, jnp.array(c, int)], axis=1) for c in chosen], axis=1)


class FourierFeatures(eqx.Module):
    r"""Waves $\sqrt{2/n}\cos(\omega_j\cdot x+b_j)$.

    With Gaussian frequencies of spread $1/\ell$ their kernel tends to $e^{-|x-x'|^2/2\ell^2}$ as n grows.
    """

    frequencies: Float[Array, "features d"]
    phases: Float[Array, " features"]

    @classmethod
    def draw(
        cls, key: PRNGKeyArray, inputs: int, features: int, length: float | int = 1.0
    ) -> "FourierFeatures":
        """Random frequencies of a Gaussian kernel of the given length scale."""
        if not length > 0:
            raise ValueError(f"length must be positive, got {length}.")
        frequency_key, phase_key = jax.random.split(key)
        frequencies = jax.random.normal(frequency_key, (features, inputs), float) / length
        return cls(frequencies, jax.random.uniform(phase_key, (features,), float, 0.0, 2 * np.pi))

    def __call__(self, x: Float[AnyArray, "n d"]) -> Float[Array, "n features"]:
        waves = jnp.cos(jnp.asarray(x) @ self.frequencies.T + self.phases)
        return jnp.sqrt(2 / len(self.phases)) * waves


class MixedMetaFeatures(eqx.Module):
    r"""$\psi_{jk}(x) = \sum_lM_{jl}\,\phi_l(x)\,M_{kl}$: features that learn combinations of each other."""

    phi: PolynomialFeatures | FourierFeatures
    mixing: Float[AnyArray, "features modes"]

    def __call__(self, x: Float[AnyArray, "n d"]) -> Float[Array, "n features features"]:
        M = jnp.asarray(self.mixing)
        return (M * self.phi(x)[:, None, :]) @ M.T
