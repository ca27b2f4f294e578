"""What can be recorded while a network trains: functions of its parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth.networks.losses import Loss
from finitewidth.networks.models import Model
from finitewidth.networks.tangent_kernel import empirical_ntk

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


class Sharpness(eqx.Module):
    """The Hessian eigenvalue of a function of the parameters that is largest in size, by power iteration."""

    function: Observable
    start: PyTree
    iterations: int = eqx.field(static=True, default=50)

    def __call__(self, params: PyTree) -> Float[Array, ""]:
        def hessian(v: PyTree) -> PyTree:
            return jax.jvp(jax.grad(self.function), (params,), (v,))[1]

        def turn(_, v: PyTree) -> PyTree:
            image = hessian(v)
            norm = _dot(image, image) ** 0.5
            return jax.tree.map(lambda leaf: leaf / norm, image)

        v = jax.lax.fori_loop(0, self.iterations, turn, self.start)
        return _dot(v, hessian(v)) / _dot(v, v)


def _dot(a: PyTree, b: PyTree) -> Array:
    return jnp.stack(jax.tree.leaves(jax.tree.map(lambda u, v: (u * v).sum(), a, b))).sum()


def as_observables(
    record: Record, model: Model, loss: Loss, rates: PyTree | None, x: Array, y: Array
) -> dict[str, Observable]:
    """Named observables: "loss", "outputs" and "ntk" on the training set, or functions of params."""
    if isinstance(record, str):
        raise TypeError(f"record must be a list of names, such as [{record!r}], or a mapping to functions.")
    if isinstance(record, Mapping):
        return dict(record)
    known = {
        "loss": TrainingLoss(model, loss, x, y),
        "outputs": Outputs(model, x),
        "ntk": TangentKernel(model, rates, x),
    }
    unknown = [name for name in record if name not in known]
    if unknown:
        raise ValueError(
            f"unknown observable {unknown[0]!r}. Known: {', '.join(known)}; "
            "for anything else pass a mapping from names to functions of params."
        )
    return {name: known[name] for name in record}
