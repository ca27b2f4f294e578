"""Residual blocks: what enters, plus what a branch makes of it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import as_number
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.branches import as_layer
from finitewidth.architecture.critical_point import critical_variances, layer_response
from finitewidth.architecture.dense import AFFINE
from finitewidth.architecture.layer import Layer, Shape, Surroundings, replaced
from finitewidth.architecture.normalisation import Normalisation
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.sequential import Sequential, activation_of
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision


class TwoWays(NamedTuple):
    """The branch and the way around it; also what comes one per each of them."""

    body: Any
    shortcut: Any


@word("Residual")
class Residual(Layer):
    r"""$\alpha\,\mathrm{shortcut}(x) + \beta\,\mathrm{body}(x)$; without a shortcut $x$ itself.

    Parameters
    ----------
    body
        Layers of the branch. At infinite width the last one must be random weights, so that what they add
        is uncorrelated with what enters. Weights without variances get those of `residual_variances`.
    alpha, beta
        Factors of shortcut and body. With $\beta = 1/\sqrt{\text{blocks}}$ and $\alpha=1$, a network of
        many blocks keeps its signal, its gradients and its NTK of order one.
    shortcut
        Layers on the way around the branch, none by default.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> block = fw.Residual(fw.Activate("gelu"), fw.Dense(64), beta=0.25)
    >>> net = fw.Sequential(fw.Dense(64), fw.Repeat(block, 16), fw.LayerNorm(), fw.Dense(1))
    >>> net.apply(net.init(jax.random.key(0), 3), jax.numpy.ones((5, 3))).shape
    (5, 1)
    """

    branch: Sequential
    around_branch: Sequential | None
    alpha: Float[Array, ""]
    beta: Float[Array, ""]

    def __init__(
        self,
        *body: Layer,
        alpha: float | Array = 1.0,
        beta: float | Array = 1.0,
        shortcut: Layer | Sequence[Layer] = (),
    ):
        if not body:
            raise ValueError("Residual needs at least one layer in its body.")
        layers = [as_layer("Residual", number, layer) for number, layer in enumerate(body)]
        self.branch = Sequential(*residual_variances(Sequential.flat(layers)))
        around = [shortcut] if isinstance(shortcut, Layer) else shortcut
        around = residual_variances(
            [as_layer("Residual", number, layer) for number, layer in enumerate(around)]
        )
        self.around_branch = Sequential(*around) if around else None
        self.alpha, self.beta = _factor("alpha", alpha), _factor("beta", beta)

    @property
    def body(self) -> tuple[Layer, ...]:
        """The layers of the branch."""
        return self.branch.layers

    @property
    def shortcut(self) -> tuple[Layer, ...]:
        """The layers on the way around it."""
        return () if self.around_branch is None else self.around_branch.layers

    @classmethod
    def from_entry(cls, entry: Entry) -> "Residual":
        alpha, beta = entry.number("alpha", 1.0), entry.number("beta", 1.0)
        return cls(*entry.layers("body"), alpha=alpha, beta=beta, shortcut=entry.layers("shortcut"))

    def entry(self) -> dict[str, Any]:
        return {
            "layer": "Residual",
            "alpha": float(self.alpha),
            "beta": float(self.beta),
            "body": self.branch.spec,
            "shortcut": [] if self.around_branch is None else self.around_branch.spec,
        }

    def with_inner(self, change: Callable[[Layer], Layer]) -> "Residual":
        around = self.around_branch
        return replaced(
            self, branch=change(self.branch), around_branch=None if around is None else change(around)
        )

    def within(self, around: Surroundings) -> "Residual":
        return self.with_inner(lambda inner: inner.within(around))

    def channels(self, entering: int | None) -> int | None:
        return self.branch.channels(entering)

    def leaving(self, entering: Shape) -> Shape:
        body = self.branch.leaving(entering)
        around = entering if self.around_branch is None else self.around_branch.leaving(entering)
        if body != around:
            raise ValueError(
                f"the body of a Residual turns inputs of shape {entering} into {body} and its shortcut into "
                f"{around}; the two are added and must be equal."
            )
        return body

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> TwoWays:
        keys = jax.random.split(key)
        around = self.around_branch
        return TwoWays(
            self.branch.init(keys[0], entering, weights=weights, dtype=dtype),
            () if around is None else around.init(keys[1], entering, weights=weights, dtype=dtype),
        )

    def apply(self, params: TwoWays, x: Array) -> Array:
        around = x if self.around_branch is None else self.around_branch.apply(params.shortcut, x)
        return self._added(around, self.branch.apply(params.body, x))

    def training_pass(self, params: TwoWays, x: Array, key: PRNGKeyArray) -> Array:
        keys, around = jax.random.split(key), x
        if self.around_branch is not None:
            around = self.around_branch.training_pass(params.shortcut, x, keys[1])
        return self._added(around, self.branch.training_pass(params.body, x, keys[0]))

    def _added(self, around: Array, body: Array) -> Array:
        return self.alpha.astype(body.dtype) * around + self.beta.astype(body.dtype) * body

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> TwoWays:
        around = self.around_branch
        return TwoWays(
            self.branch.learning_rates(entering, geometry),
            () if around is None else around.learning_rates(entering, geometry),
        )


def residual_variances(layers: Iterable[Layer]) -> list[Layer]:
    r"""The layers of a branch, those without variances with the ones that keep deep residual networks alive.

    Behind an activation $C_W$ is that of its critical point. The bias is $C_b=0$; behind a norm it is
    $C_b=C_W(h(1)-g(1))$, where that is positive: the branch then adds to the difference of two inputs as
    much as to the variance, with $g=\langle\sigma^2\rangle$ and $h=\langle\sigma'^2\rangle$ at variance one.
    With no activation below, $C_W=1$ and $C_b=0$ keep the variance.
    """
    filled: list[Layer] = []
    below: Activation | None = None
    for layer in layers:
        if isinstance(layer, AFFINE) and layer.C_b is None:
            normed = any(isinstance(inner, Normalisation) for inner in filled)
            layer = layer.with_variances(*_variances(below, normed))
        filled.append(layer)
        below = activation_of(layer) or below
    return filled


def _variances(below: Activation | None, normed: bool) -> tuple[float, float]:
    if below is None:
        return 0.0, 1.0
    _, C_W = critical_variances(below)
    if not normed:
        return 0.0, C_W
    g, _, h = (float(a) for a in layer_response(below, jnp.ones(())))
    return max(C_W * (h - g), 0.0), C_W


def _factor(name: str, value: float | Array) -> Float[Array, ""]:
    return value if isinstance(value, Tracer) else jnp.asarray(as_number(name, value))
