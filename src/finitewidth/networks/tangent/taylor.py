r"""A network's Taylor expansion in its parameters: linear, quadratic and cubic models.

$$z(\theta; x) \approx \sum_{k=0}^{p}\frac{1}{k!}\,
\partial^k z(\theta_0; x)[\theta-\theta_0,\dots,\theta-\theta_0]$$
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth._base.derivatives import value_and_derivatives
from finitewidth._base.foreign import check_params
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.networks.models import Apply, Model, as_model


class TaylorExpansion(Model):
    """The expansion of a network about the parameters `center`; a function of (params, x)."""

    model: Model
    center: PyTree
    order: int = eqx.field(static=True)

    def __call__(self, params: PyTree, x: Array) -> Float[Array, "n out"]:
        shift = jax.tree.map(jnp.subtract, params, self.center)

        def along(t: Array) -> Float[Array, "n out"]:
            return self.model(jax.tree.map(lambda c, s: c + t * s, self.center, shift), x)

        origin = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        value, *derivatives = value_and_derivatives(along, origin, self.order)
        for k, derivative in enumerate(derivatives, start=1):
            value = value + derivative / math.factorial(k)
        return value

    def default_rates(self, params: PyTree, entering: Shape, geometry: Geometry) -> PyTree:
        return self.model.default_rates(params, entering, geometry)


def expand(apply_or_net: Layer | Apply | Model, params0: PyTree, order: int) -> TaylorExpansion:
    """The Taylor model of a network in its parameters.

    Parameters
    ----------
    apply_or_net
        A network, or any function of (params, x).
    params0
        Parameters about which to expand.
    order
        1 for the linear, 2 for the quadratic, 3 for the cubic model; any larger order as well.

    Returns
    -------
    TaylorExpansion
        A function of (params, x) that can be trained, and asked for its kernels, like a network.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.MLP(hidden=(8,), activation="tanh")
    >>> params = net.init(jax.random.key(0), 3)
    >>> linear = fw.expand(net, params, order=1)
    >>> linear(params, jax.numpy.ones((5, 3))).shape
    (5, 1)
    """
    if not isinstance(order, int) or order < 1:
        raise ValueError(f"order must be a whole number of at least 1, got {order!r}.")
    model = as_model(apply_or_net)
    check_params(params0)
    return TaylorExpansion(model, params0, order)
