r"""The empirical tangent kernel without its matrix: products, solutions and trace of any function's NTK.

$\sum_{2}H_{12}v_2=J_1\,\lambda\,J_2^Tv$ is one derivative backwards at the inputs $x_2$ and one forwards at
$x_1$: time and memory of a few passes through the network, whatever the number of outputs.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_key, check_positive, check_ridge, check_whole
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth.architecture.layer import Layer
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments, rate_tree


class TangentProducts(eqx.Module):
    """The empirical NTK of one network between inputs x1 and x2, known by its products.

    Call it on v (n2, out) for H v (n1, out). `solve` and `trace` are for x2 = x1.
    """

    model: Model
    params: PyTree
    rates: PyTree
    x1: Array
    x2: Array | None

    def __call__(self, v: Float[AnyArray, "n2 out"]) -> Float[Array, "n1 out"]:
        """H v."""
        return _product(self, self._vector("v", v, self.x1 if self.x2 is None else self.x2))

    def solve(
        self,
        b: Float[AnyArray, "n out"],
        *,
        ridge: float | int = 0.0,
        rtol: float = 1e-6,
        max_steps: int | None = None,
    ) -> Float[Array, "n out"]:
        """v with (H + ridge) v = b, by conjugate gradients: `rtol` of b is left."""
        self._refuse_two_sets("solve")
        check_ridge(ridge)
        check_positive("rtol", rtol)
        solution = _solve(self, self._vector("b", b, self.x1), ridge, rtol, max_steps)
        if bool(solution.result != lx.RESULTS.successful):
            raise ValueError(
                f"conjugate gradients did not reach rtol={rtol:g}: the kernel is close to singular; pass a "
                f"larger ridge than {float(ridge):g}, or a larger rtol."
            )
        return solution.value

    def trace(self, *, key: PRNGKeyArray, draws: int = 64) -> Estimate:
        """The trace over points and outputs, from random signs."""
        self._refuse_two_sets("trace")
        check_key(key)
        check_whole("draws", draws, least=2)
        return sample_mean(np.asarray(_quadratic_forms(self, jax.random.split(key, draws))))

    def _vector(self, name: str, v: AnyArray, x: Array) -> Array:
        shape = jax.eval_shape(self.model, self.params, x)
        v = jnp.asarray(v)
        if v.shape != shape.shape:
            raise ValueError(f"{name} has shape {v.shape}; these inputs have outputs of shape {shape.shape}.")
        return v.astype(shape.dtype)

    def _refuse_two_sets(self, what: str) -> None:
        if self.x2 is not None:
            raise ValueError(f"{what} is for the kernel of one set of inputs with itself: leave x2 out.")


def empirical_ntk_products(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x1: Inputs,
    x2: Inputs | None = None,
    *,
    rates: PyTree | None = None,
) -> TangentProducts:
    """The empirical NTK as an operator: H v, (H + r)^-1 b and tr H without the matrix H.

    Arguments as in `empirical_ntk`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> net = fw.MLP(hidden=(32,), activation="tanh", n_out=3)
    >>> x, params = jnp.ones((5, 2)), net.init(jax.random.key(0), 2)
    >>> H = fw.empirical_ntk_products(net, params, x)
    >>> H(jnp.ones((5, 3))).shape
    (5, 3)
    """
    model = as_model(apply_or_net)
    x1 = as_points("x1", x1, model)
    check_arguments(model, params, x1)
    x2 = None if x2 is None else as_points("x2", x2, model)
    if x2 is not None and x2.shape[1:] != x1.shape[1:]:
        raise ValueError(f"x1 has points of shape {x1.shape[1:]} and x2 of {x2.shape[1:]}; they must agree.")
    return TangentProducts(model, params, rate_tree(model, params, x1.shape[1:], rates, "gradient"), x1, x2)


@eqx.filter_jit
def _product(kernel: TangentProducts, v: Array) -> Array:
    x2 = kernel.x1 if kernel.x2 is None else kernel.x2
    _, pull = jax.vjp(lambda params: kernel.model(params, x2), kernel.params)
    direction = jax.tree.map(lambda rate, part: rate * part, kernel.rates, pull(v)[0])
    return jax.jvp(lambda params: kernel.model(params, kernel.x1), (kernel.params,), (direction,))[1]


@eqx.filter_jit
def _solve(
    kernel: TangentProducts, b: Array, ridge: float, rtol: float, max_steps: int | None
) -> lx.Solution:
    operator = lx.FunctionLinearOperator(
        lambda v: _product(kernel, v) + ridge * v, jax.eval_shape(lambda: b), lx.positive_semidefinite_tag
    )
    return lx.linear_solve(operator, b, lx.CG(rtol, 0.0, max_steps=max_steps), throw=False)


@eqx.filter_jit
def _quadratic_forms(kernel: TangentProducts, keys: Array) -> Float[Array, " draws"]:
    shape = jax.eval_shape(kernel.model, kernel.params, kernel.x1)

    def one(key: Array) -> Array:
        signs = jax.random.rademacher(key, shape.shape, shape.dtype)
        return jnp.sum(signs * _product(kernel, signs))

    return jax.lax.map(one, keys)
