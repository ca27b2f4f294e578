"""The one description of a network that theory and real networks share."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from finitewidth.activations import Activation, as_activation
from finitewidth.critical_point import critical_point

Hyperparameter = float | int | Sequence[float] | np.ndarray | Array


class MLP(eqx.Module):
    r"""A multilayer perceptron: architecture, initialisation and learning-rate tensor.

    $z^{(1)} = b^{(1)} + W^{(1)}x$ and $z^{(\ell+1)} = b^{(\ell+1)} + W^{(\ell+1)}\sigma(z^{(\ell)})$,
    with $b\sim N(0, C_b)$ and $W^{(\ell)}\sim N(0, C_W/n_{\ell-1})$. Gradient descent moves biases
    with rate $\lambda_b$ and weights with rate $\lambda_W/n_{\ell-1}$, times the global step.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; empty for a linear model.
    activation
        A name, an `Activation`, or any elementwise function.
    C_b, C_W
        Variances of biases and (rescaled) weights: a number, or one per affine layer.
        Both `None`, the default, means the critical point of the activation.
    lambda_b, lambda_W
        Learning rates of biases and (rescaled) weights: a number, or one per affine layer.
    n_out
        Number of outputs.

    Examples
    --------
    >>> import finitewidth as fw
    >>> net = fw.MLP(hidden=(128, 128), activation="relu")
    >>> net.depth, float(net.C_W[0])
    (3, 2.0)
    """

    hidden: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    C_b: Float[Array, " depth"]
    C_W: Float[Array, " depth"]
    lambda_b: Float[Array, " depth"]
    lambda_W: Float[Array, " depth"]
    n_out: int = eqx.field(static=True)

    def __init__(
        self,
        hidden: Sequence[int],
        activation: str | Activation | Callable[[Array], Array] = "relu",
        C_b: Hyperparameter | None = None,
        C_W: Hyperparameter | None = None,
        lambda_b: Hyperparameter = 1.0,
        lambda_W: Hyperparameter = 1.0,
        n_out: int = 1,
    ):
        self.hidden = _widths("hidden", hidden)
        (self.n_out,) = _widths("n_out", (n_out,))
        self.activation = as_activation(activation)
        if (C_b is None) != (C_W is None):
            given, missing = ("C_W", "C_b") if C_b is None else ("C_b", "C_W")
            raise ValueError(
                f"{given} was given without {missing}: pass both, or neither for the critical point."
            )
        if C_b is None or C_W is None:
            critical = critical_point(self.activation)
            if not critical.exists:
                raise ValueError(
                    f"activation {self.activation.name!r} has no critical point "
                    f"({critical.reason}): pass C_b and C_W."
                )
            C_b, C_W = critical.C_b, critical.C_W
        self.C_b = self._per_layer("C_b", C_b)
        self.C_W = self._per_layer("C_W", C_W, positive=True)
        self.lambda_b = self._per_layer("lambda_b", lambda_b)
        self.lambda_W = self._per_layer("lambda_W", lambda_W)

    @property
    def depth(self) -> int:
        """Number of affine layers."""
        return len(self.hidden) + 1

    def _per_layer(self, name: str, value: Hyperparameter, positive: bool = False) -> Array:
        array = jnp.asarray(value, dtype=float)
        if array.shape not in ((), (self.depth,)):
            raise ValueError(
                f"{name} has shape {array.shape}; give one number, or {self.depth} of them "
                f"(one per affine layer of {len(self.hidden)} hidden layers)."
            )
        if not isinstance(array, Tracer):
            numbers = np.asarray(array)
            allowed = numbers > 0 if positive else numbers >= 0
            if not (allowed & np.isfinite(numbers)).all():
                bound = "positive" if positive else "zero or positive"
                raise ValueError(f"{name} must be finite and {bound}, got {value}.")
        return jnp.broadcast_to(array, (self.depth,))


def _widths(name: str, values: Sequence[int]) -> tuple[int, ...]:
    if isinstance(values, int | np.integer):
        raise TypeError(f"{name} must be a sequence of widths, such as ({values},), got {values}.")
    widths = tuple(int(v) for v in values)
    if any(w < 1 or w != v for w, v in zip(widths, values, strict=True)):
        raise ValueError(f"{name} must hold positive whole numbers, got {tuple(values)}.")
    return widths
