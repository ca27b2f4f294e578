"""What can be recorded while a network trains: functions of its parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from finitewidth._base.linalg.traced_lanczos import leading_pair
from finitewidth.networks.losses import Loss
from finitewidth.networks.models import Model
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk

Observable = Callable[[Any], PyTree]
Record = Sequence[str] | Mapping[str, Observable]


class TrainingLoss(eqx.Module):
    """The loss on the whole training set."""

    model: Model
    loss: Loss = eqx.field(static=True)
    x: Array
    y: Array

    def __call__(self, params: PyTree) -> Float[Array, ""]:
        return self.loss.value(self.model(params, self.x), self.y)


class Outputs(eqx.Module):
    """The outputs at given inputs."""

    model: Model
    x: Array

    def __call__(self, params: PyTree) -> Float[Array, "n out"]:
        return self.model(params, self.x)


class TangentKernel(eqx.Module):
    """The empirical NTK at given inputs; without rates, that of the network's own."""

    model: Model
    rates: PyTree | None
    x: Array

    def __call__(self, params: PyTree) -> Float[Array, "out out n n"]:
        return empirical_ntk(self.model, params, self.x, rates=self.rates)


class Eigenvalue(NamedTuple):
    """An approximate eigenvalue; an exact one is at most `error` away."""

    value: Float[Array, ""]
    error: Float[Array, ""]


class Sharpness(eqx.Module):
    """The Hessian eigenvalue of a function of the parameters that is largest in size, by Lanczos' method.

    Parameters
    ----------
    function
        Of the parameters, such as `TrainingLoss`.
    start
        A direction in the space of parameters, not orthogonal to the eigenvector.
    products
        Products with the Hessian in one round, which starts with the vector that the last one has found.
    rounds
        At most so many; fewer if the error is below the tolerance before.
    tolerance
        Of the error, relative to the eigenvalue.
    """

    function: Observable
    start: PyTree
    products: int = eqx.field(static=True, default=20)
    rounds: int = eqx.field(static=True, default=20)
    tolerance: float = eqx.field(static=True, default=1e-5)

    def __call__(self, params: PyTree) -> Eigenvalue:
        start, unravel = ravel_pytree(self.start)

        def hessian(v: Float[Array, " params"]) -> Float[Array, " params"]:
            return ravel_pytree(jax.jvp(jax.grad(self.function), (params,), (unravel(v),))[1])[0]

        found = leading_pair(
            hessian, start, products=self.products, rounds=self.rounds, tolerance=self.tolerance
        )
        return Eigenvalue(found.value, found.error)


def as_observables(
    record: Record,
    model: Model,
    loss: Loss,
    rates: PyTree | None,
    x: Array,
    y: Array,
    x_test: Array | None = None,
) -> dict[str, Observable]:
    """Named observables, or functions of params.

    "loss", "outputs" and "ntk" are those on the training set, "test_outputs" those at the test inputs.
    """
    if isinstance(record, str):
        raise TypeError(f"record must be a list of names, such as [{record!r}], or a mapping to functions.")
    if isinstance(record, Mapping):
        return dict(record)
    known: dict[str, Observable] = {
        "loss": TrainingLoss(model, loss, x, y),
        "outputs": Outputs(model, x),
        "ntk": TangentKernel(model, rates, x),
    }
    if x_test is not None:
        known["test_outputs"] = Outputs(model, x_test)
    unknown = [name for name in record if name not in known]
    if unknown:
        raise ValueError(
            f"unknown observable {unknown[0]!r}. Known: {', '.join(known)}; "
            "for anything else pass a mapping from names to functions of params."
        )
    return {name: known[name] for name in record}
