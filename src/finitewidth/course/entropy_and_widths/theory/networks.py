r"""The class of functions that networks of one architecture compute, measured on a set of inputs.

A function is its vector of outputs, divided by the square root of their number. Random networks give members;
their singular values give linear codes, which are 1-Lipschitz both ways; Jacobians by the parameters give the
Lipschitz constant of the map from parameters to functions, at which a network describes its own class.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.course.entropy_and_widths.theory.entropy import EntropyBounds
from finitewidth.course.entropy_and_widths.theory.finite_sets import finite_entropy


class NetworkClass(NamedTuple):
    """Functions of random networks on a set of inputs.

    `functions` has one in each row; `lipschitz` is the largest singular value of the Jacobian by the
    parameters in each of them, and `parameters` their number.
    """

    functions: Float[np.ndarray, "members points"]
    lipschitz: Float[np.ndarray, " members"]
    parameters: int

    @property
    def lipschitz_bound(self) -> float:
        """The largest Lipschitz constant seen from parameters to functions: a lower bound of the true one."""
        return float(self.lipschitz.max())

    def linear_width(self, numbers: int) -> float:
        """The largest distance of a member from the best common plane with so many dimensions.

        Projection is linear and 1-Lipschitz, so the stable width of these members is not larger.
        """
        check_whole("numbers", numbers, 0)
        _, _, Vt = np.linalg.svd(self.functions, full_matrices=False)
        rest = self.functions - self.functions @ Vt[:numbers].T @ Vt[:numbers]
        return float(np.linalg.norm(rest, axis=1).max())

    def entropy(self, n: int) -> EntropyBounds:
        """The radius at which 2^n balls cover these members."""
        return finite_entropy(self.functions, n)


def network_class(
    net: Layer, x: Float[np.ndarray, "points n_in"], key: PRNGKeyArray, members: int
) -> NetworkClass:
    """Draw members of a class of networks with one output.

    Parameters
    ----------
    net
        The architecture and the law of its parameters.
    x
        Inputs on which functions are compared.
    key, members
        Randomness, and the number of networks.
    """
    check_key(key)
    check_whole("members", members)
    inputs = jnp.asarray(x)
    params = jax.eval_shape(lambda k: net.init(k, x.shape[1]), key)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))

    def one(key: PRNGKeyArray) -> tuple[Float[Array, " points"], Float[Array, "points points"]]:
        drawn: Any = net.init(key, x.shape[1])
        flat, unflatten = ravel_pytree(drawn)
        outputs = lambda v: net.apply(unflatten(v), inputs)[:, 0] / jnp.sqrt(len(inputs))
        jacobian = jax.jacobian(outputs)(flat)
        return outputs(flat), jacobian @ jacobian.T

    functions, grams = jax.lax.map(jax.jit(one), jax.random.split(key, members))
    return NetworkClass(np.asarray(functions), np.sqrt(np.linalg.eigvalsh(np.asarray(grams))[:, -1]), size)
