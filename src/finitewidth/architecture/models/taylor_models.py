r"""Linear, quadratic and cubic models: polynomials in the weights, with features of the inputs.

$$z_{i}(x) = \sum_j W_{ij}\phi_j(x)+\frac\epsilon2\sum_{jk}W_{ij}W_{ik}\psi_{jk}(x)
+\frac{\epsilon^2}6\sum_{jkl}W_{ij}W_{ik}W_{il}\Psi_{jkl}(x)$$

Every output has a row of weights of its own. Each further derivative costs a power of $\epsilon$, as in
$z(W) = f(\epsilon W)/\epsilon$, so that to first order in $\epsilon$ any model is quadratic. The effective
features $\phi^E = \partial z/\partial W$ move with the weights: the model learns its features.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth.architecture.models.meta_kernel import FeatureMetaKernel
from finitewidth.architecture.models.point_model import PointModel

FeatureFunction = Callable[[AnyArray], AnyArray]


def _number(epsilon: float | int | Array) -> Array:
    """A number as an array, so that another one needs no new compilation."""
    return jnp.asarray(epsilon, dtype=None if isinstance(epsilon, Array) else float)


class FeatureTable(PointModel):
    r"""A model at some points: $\phi$, $\psi$ and $\Psi$ there (None is zero), a function of the weights."""

    phi: Float[Array, "n features"]
    psi: Float[Array, "n features features"] | None = None
    Psi: Float[Array, "n features features features"] | None = None
    epsilon: Float[Array, ""] = eqx.field(default=1.0, converter=_number)

    def __call__(self, weights: Float[Array, "out features"]) -> Float[Array, "n out"]:
        """Outputs at the points."""
        return jax.vmap(self._output, out_axes=1)(weights)

    def jacobian(self, weights: Float[Array, "out features"]) -> Float[Array, "n_out params"]:
        out, width = weights.shape
        own = jax.vmap(self.features, out_axes=1)(weights)
        return jnp.einsum("njf,ij->njif", own, jnp.eye(out)).reshape(-1, out * width)

    def _output(self, w: Float[Array, " features"]) -> Float[Array, " n"]:
        z = self.phi @ w
        if self.psi is not None:
            z = z + self.epsilon / 2 * ((self.psi @ w) @ w)
        if self.Psi is not None:
            z = z + self.epsilon**2 / 6 * (((self.Psi @ w) @ w) @ w)
        return z

    def features(self, w: Float[Array, " features"]) -> Float[Array, "n features"]:
        r"""Effective features $\phi^E(w)$ of one output with weights w."""
        phi = self.phi
        if self.psi is not None:
            phi = phi + self.epsilon * (self.psi @ w)
        if self.Psi is not None:
            phi = phi + self.epsilon**2 / 2 * ((self.Psi @ w) @ w)
        return phi

    def meta_features(self, w: Float[Array, " features"]) -> Float[Array, "n features features"]:
        r"""$\psi+\epsilon\Psi w$: meta features of one output with weights w, without their $\epsilon$."""
        psi = jnp.zeros((*self.phi.shape, self.phi.shape[1])) if self.psi is None else self.psi
        return psi if self.Psi is None else psi + self.epsilon * (self.Psi @ w)


class FeatureModel(eqx.Module):
    """A polynomial in the weights whose coefficients are functions of the input."""

    @abstractmethod
    def at(self, x: AnyArray) -> FeatureTable:
        """The model at some points, its features evaluated once."""

    def __call__(self, weights: Float[Array, "out features"], x: AnyArray) -> Float[Array, "n out"]:
        """Outputs z at every input."""
        return self.at(x)(weights)

    def effective_features(
        self, weights: Float[Array, "out features"], x: AnyArray
    ) -> Float[Array, "out n features"]:
        r"""$\phi^E_{ij}(x) = \partial z_i/\partial W_{ij}$."""
        return jax.vmap(self.at(x).features)(weights)

    def effective_kernel(
        self, weights: Float[Array, "out features"], x1: AnyArray, x2: AnyArray | None = None
    ) -> Float[Array, "out n1 n2"]:
        r"""$k^E_{ii;12} = \phi^E_i(x_1)\cdot\phi^E_i(x_2)$."""
        left = self.effective_features(weights, x1)
        right = left if x2 is None else self.effective_features(weights, x2)
        return left @ right.mT

    def kernel(self, x1: AnyArray, x2: AnyArray | None = None) -> Float[Array, "n1 n2"]:
        """The fixed kernel k, that of the linear model."""
        left = self.at(x1).phi
        return left @ (left if x2 is None else self.at(x2).phi).T

    def meta_kernel(
        self,
        x0: AnyArray,
        x1: AnyArray | None = None,
        x2: AnyArray | None = None,
        weights: Float[Array, " features"] | None = None,
    ) -> FeatureMetaKernel:
        r"""$\mu_{012} = \epsilon\,\phi_1^T\psi_0\phi_2$, or $\mu^E$, dressed by the weights of one output."""
        tables = [self.at(x0 if x is None else x) for x in (x0, x1, x2)]
        w = jnp.zeros(tables[0].phi.shape[1]) if weights is None else weights
        return FeatureMetaKernel(
            tables[0].meta_features(w), tables[1].features(w), tables[2].features(w), tables[0].epsilon
        )


class LinearModel(FeatureModel):
    r"""$z = W\phi(x)$.

    Parameters
    ----------
    phi
        A function from points (n, ...) to features (n, features).
    """

    phi: FeatureFunction

    def at(self, x: AnyArray) -> FeatureTable:
        return FeatureTable(_evaluated("phi", self.phi, x, 1))


class QuadraticModel(FeatureModel):
    r"""$z = W\phi(x)+\frac\epsilon2W\psi(x)W$.

    Parameters
    ----------
    phi
        A function from points (n, ...) to features (n, features).
    psi
        A function from points to meta features (n, features, features), symmetric.
    epsilon
        Size of the deformation.

    Examples
    --------
    >>> import jax.numpy as jnp, finitewidth as fw
    >>> powers = lambda x: x ** jnp.arange(4)
    >>> model = fw.QuadraticModel(powers, lambda x: powers(x)[:, :, None] * powers(x)[:, None, :], 0.1)
    >>> x = jnp.linspace(-1, 1, 5)[:, None]
    >>> model(jnp.ones((2, 4)), x).shape, model.effective_kernel(jnp.ones((2, 4)), x).shape
    ((5, 2), (2, 5, 5))
    """

    phi: FeatureFunction
    psi: FeatureFunction
    epsilon: Float[Array, ""] = eqx.field(default=1.0, converter=_number)

    def at(self, x: AnyArray) -> FeatureTable:
        return FeatureTable(
            phi := _evaluated("phi", self.phi, x, 1),
            _evaluated("psi", self.psi, x, 2, phi.shape[1]),
            epsilon=self.epsilon,
        )


class CubicModel(FeatureModel):
    r"""$z = W\phi(x)+\frac\epsilon2W\psi(x)W+\frac{\epsilon^2}6\Psi(x)WWW$.

    Parameters
    ----------
    phi, psi
        As in `QuadraticModel`.
    Psi
        A function from points to (n, features, features, features), symmetric in the features.
    epsilon
        Size of the deformation.
    """

    phi: FeatureFunction
    psi: FeatureFunction
    Psi: FeatureFunction
    epsilon: Float[Array, ""] = eqx.field(default=1.0, converter=_number)

    def at(self, x: AnyArray) -> FeatureTable:
        return FeatureTable(
            phi := _evaluated("phi", self.phi, x, 1),
            _evaluated("psi", self.psi, x, 2, phi.shape[1]),
            _evaluated("Psi", self.Psi, x, 3, phi.shape[1]),
            self.epsilon,
        )


def _evaluated(
    name: str, function: FeatureFunction, x: AnyArray, rank: int, width: int | None = None
) -> Array:
    """Features of the right shape, finite and symmetric."""
    values = jnp.asarray(function(x))
    expected = (len(x), *((values.shape[-1] if width is None else width),) * rank) if values.ndim else ()
    if values.shape != expected:
        names = ", ".join(["features" if width is None else str(width)] * rank)
        raise ValueError(
            f"{name} turned {len(x)} points into shape {values.shape}; it must be ({len(x)}, {names})."
        )
    if not isinstance(values, Tracer):
        _refuse_irregular(name, np.asarray(values), rank)
    return values


def _refuse_irregular(name: str, values: np.ndarray, rank: int) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    # Swaps of neighbouring axes generate every permutation.
    for axis in range(1, rank):
        skew = np.abs(values - np.swapaxes(values, axis, axis + 1)).max(initial=0.0)
        if skew > 1e3 * np.finfo(values.dtype).eps * np.abs(values).max(initial=0.0):
            raise ValueError(
                f"{name} must be symmetric in its feature indices, but exchanging two of them changes it by "
                f"{skew:.3g}: use ({name} + its transpose) / 2."
            )
