"""Self-attention: every position reads a weighted average of all positions."""

from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import as_precision, check_key
from finitewidth.architecture.dense import Affine, Hyperparameter, as_hyperparameter
from finitewidth.architecture.layer import Layer, Shape, Surroundings, as_shape, replaced
from finitewidth.architecture.parametrisation import Geometry, Place
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision, draw_weight

Kind = Literal["softmax", "identity"]
Scaling = Literal["sqrt", "linear", "linear-untied"]
KINDS: tuple[str, ...] = get_args(Kind)
SCALINGS: tuple[str, ...] = get_args(Scaling)
_SETTINGS = {"kind": "softmax", "scaling": "sqrt"}
_VARIANCES = {"C_b": 0.0, "C_QK": 1.0, "C_OV": 1.0}
_RATES = ("lambda_b", "lambda_QK", "lambda_OV")


class AttentionParams(NamedTuple):
    """Matrices (heads * head_width, n) of queries, keys and values, and the affine map of the heads' outputs.

    `key` is an empty tuple where keys and queries are one; also anything that comes one per matrix.
    """

    query: Any
    key: Any
    value: Any
    output: Affine


@word("Attention")
class SelfAttention(Layer):
    r"""Self-attention with many heads over tokens, inputs (tokens, n channels).

    Each head has logits $A_{ij} = q_i\cdot k_j$ divided by $\sqrt d$ or by d, its width; weights S of A,
    row by row; and hands on $\sum_j S_{ij}v_j$. All heads together pass a matrix $W_O$ and a bias. $W_Q,
    W_K\sim N(0, C_{QK}/n)$ and $W_V, W_O\sim N(0, \sqrt{C_{OV}}/\text{fan-in})$: a logit has the scale
    $C_{QK}$, and the whole layer multiplies variances by $C_{OV}$.

    Parameters
    ----------
    width
        Channels that leave.
    heads, head_width
        Number of heads, and the width of each; by default width / heads, which must then be whole.
    kind
        "softmax", or "identity" for weights that are the logits themselves.
    scaling
        "sqrt": logits are divided by sqrt(head_width) and stay random at any width. "linear": divided by
        head_width, with one matrix for keys and queries, so that logits become their averages.
        "linear-untied": the same with two matrices; logits vanish in wide networks and every token reads
        the average of all.
    C_b, C_QK, C_OV
        Variances of biases, logits and outputs.
    lambda_b, lambda_QK, lambda_OV
        Learning rates of biases, of keys and queries, and of values and outputs.
    """

    width: int = eqx.field(static=True)
    heads: int = eqx.field(static=True)
    head_width: int = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    scaling: str = eqx.field(static=True)
    C_b: Float[Array, ""]
    C_QK: Float[Array, ""]
    C_OV: Float[Array, ""]
    lambda_b: Float[Array, ""]
    lambda_QK: Float[Array, ""]
    lambda_OV: Float[Array, ""]
    around: Surroundings = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        heads: int = 1,
        head_width: int | None = None,
        kind: str = "softmax",
        scaling: str = "sqrt",
        C_b: Hyperparameter = 0.0,
        C_QK: Hyperparameter = 1.0,
        C_OV: Hyperparameter = 1.0,
        lambda_b: Hyperparameter = 1.0,
        lambda_QK: Hyperparameter = 1.0,
        lambda_OV: Hyperparameter = 1.0,
    ):
        (self.width,), (self.heads,) = as_shape("width", width), as_shape("heads", heads)
        if head_width is None and self.width % self.heads:
            raise ValueError(
                f"heads={self.heads} does not divide width={self.width}: give head_width, or another width."
            )
        (self.head_width,) = as_shape(
            "head_width", self.width // self.heads if head_width is None else head_width
        )
        for name, value, known in (("kind", kind, KINDS), ("scaling", scaling, SCALINGS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
        self.kind, self.scaling = kind, scaling
        self.C_b = as_hyperparameter("C_b", C_b, ())
        self.C_QK = as_hyperparameter("C_QK", C_QK, (), positive=True)
        self.C_OV = as_hyperparameter("C_OV", C_OV, (), positive=True)
        self.lambda_b = as_hyperparameter("lambda_b", lambda_b, ())
        self.lambda_QK = as_hyperparameter("lambda_QK", lambda_QK, ())
        self.lambda_OV = as_hyperparameter("lambda_OV", lambda_OV, ())
        self.around = Surroundings()

    @classmethod
    def from_entry(cls, entry: Entry) -> "SelfAttention":
        width, heads = entry.value("width", entry.sizes.width), entry.value("heads", 1)
        variances: dict[str, Any] = {
            name: entry.number(name, default) for name, default in _VARIANCES.items()
        }
        # Rates that are absent are those of parameters of variance one, as in every affine layer.
        of_unit = (variances["C_b"], variances["C_QK"], variances["C_OV"] ** 0.5)
        rates: dict[str, Any] = {name: entry.number(name, C) for name, C in zip(_RATES, of_unit, strict=True)}
        settings = {name: entry.text(name, default) for name, default in _SETTINGS.items()}
        return cls(width, heads, entry.value("head_width"), **settings, **variances, **rates)

    def entry(self) -> dict[str, Any]:
        plain = ("width", "heads", "head_width", *_SETTINGS)
        numbers = {name: float(getattr(self, name)) for name in (*_VARIANCES, *_RATES)}
        return {"layer": "Attention", **{name: getattr(self, name) for name in plain}, **numbers}

    def channels(self, entering: int | None) -> int:
        return self.width

    @property
    def tied(self) -> bool:
        """Whether keys and queries are one."""
        return self.scaling == "linear"

    def within(self, around: Surroundings) -> "SelfAttention":
        return replaced(self, around=around)

    def leaving(self, entering: Shape) -> Shape:
        if len(entering) != 2:
            raise ValueError(f"SelfAttention needs inputs of shape (tokens, channels); got {entering}.")
        return (entering[0], self.width)

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> AttentionParams:
        check_key(key)
        dtype = as_precision(dtype)
        inside, outside = self._places(entering)
        keys = jax.random.split(key, 5)

        def matrix(key: PRNGKeyArray, place: Place, C: Array) -> Array:
            unit = draw_weight(weights, key, (place.fan_out, place.fan_in), dtype)
            return (unit * jnp.sqrt(C * self.around.parametrisation.weight_variance(place))).astype(dtype)

        C_one = jnp.sqrt(self.C_OV)
        bias = jax.random.normal(keys[4], (self.width,), dtype) * jnp.sqrt(self.C_b)
        return AttentionParams(
            matrix(keys[0], inside, self.C_QK),
            () if self.tied else matrix(keys[1], inside, self.C_QK),
            matrix(keys[2], inside, C_one),
            Affine(matrix(keys[3], outside, C_one), bias.astype(dtype)),
        )

    def apply(self, params: AttentionParams, x: Array) -> Array:
        self.leaving(x.shape[1:])
        if x.shape[-1] != params.query.shape[1]:
            raise ValueError(
                f"a SelfAttention layer got inputs of shape {x.shape[1:]}; its matrices take "
                f"{params.query.shape[1]} channels."
            )
        by_head = lambda matrix: (x @ matrix.T).reshape(*x.shape[:2], self.heads, self.head_width)
        query, value = by_head(params.query), by_head(params.value)
        key = query if self.tied else by_head(params.key)
        size = np.sqrt(self.head_width) if self.scaling == "sqrt" else self.head_width
        scores = jnp.einsum("nihd,njhd->nhij", query, key) / size
        if self.kind == "softmax":
            scores = jax.nn.softmax(scores, axis=-1)
        read = jnp.einsum("nhij,njhd->nihd", scores, value).reshape(*x.shape[:2], -1)
        return read @ params.output.weight.T + params.output.bias

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> AttentionParams:
        inside, outside = (self.around.parametrisation.rates(p, geometry) for p in self._places(entering))
        power = 1.0 if geometry == "gradient" else 0.5
        queries = inside.weight * self.lambda_QK**power
        return AttentionParams(
            queries,
            () if self.tied else queries,
            inside.weight * self.lambda_OV**power,
            Affine(outside.weight * self.lambda_OV**power, outside.bias * self.lambda_b**power),
        )

    def _places(self, entering: Shape | int) -> tuple[Place, Place]:
        """Of queries, keys and values, and of the outputs."""
        shape = as_shape("entering", entering)
        self.leaving(shape)
        around, all_heads = self.around, self.heads * self.head_width
        inside = Place(shape[-1], all_heads, around.width, around.first, False)
        return inside, Place(all_heads, self.width, around.width, False, around.last)
