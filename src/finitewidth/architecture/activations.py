"""Activations: a neuron's function and the Gaussian averages that belong to it."""

import dataclasses
import difflib
import functools
import importlib
import math
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import is_number
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.closed_forms import Erf, Gelu, Monomial, PiecewiseLinear, Sinusoid, Step
from finitewidth.expectations.hermite import DEFAULT_TERMS, hermite_series
from finitewidth.expectations.kinked.kinks import Kink, evaluate, kinks_at
from finitewidth.expectations.kinked.polygon import polygon
from finitewidth.expectations.laws import PairLaw
from finitewidth.expectations.quadrature import gaussian_rule


@dataclasses.dataclass(frozen=True)
class Activation:
    """An elementwise activation function.

    Parameters
    ----------
    function
        Elementwise function of an array, written with `jax.numpy` so that it can be
        differentiated. It must be continuous; kinks are allowed, best at zero.
    name
        What tables and messages call it; the function's own name by default. A built-in activation is
        pickled and saved by its name, any other by where its function can be imported from.
    closed_form
        The exact pair law, where one is known. Without it the averages of a function that is linear between
        its declared kinks are computed as exactly, all others from a Hermite series of adjustable accuracy.
    kink_places
        Where the slope jumps, such as (-1, 1) for clip(z, -1, 1); a function that does not say is looked at
        around zero only.

    Examples
    --------
    >>> import jax.numpy as jnp, finitewidth as fw
    >>> squareplus = fw.Activation(lambda z: (z + jnp.sqrt(z**2 + 4)) / 2, name="squareplus")
    >>> net = fw.MLP(hidden=(64, 64), activation=squareplus, C_b=0.0, C_W=1.0)
    """

    function: Elementwise
    name: str = ""
    closed_form: PairLaw | None = None
    kink_places: tuple[float | int, ...] = (0.0,)

    def __post_init__(self):
        object.__setattr__(self, "kink_places", _as_places(self.kink_places))
        if not callable(self.function):
            raise TypeError(
                f"Activation needs a function of an array, got {self.function!r}; "
                "for a built-in activation pass its name instead."
            )
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "custom"))
        if self.closed_form is None:
            _check_on_nodes(self.name, self.function)
            if any(self.kink_places):
                object.__setattr__(self, "closed_form", polygon(self.function, self.kinks))

    def __call__(self, z: Array) -> Array:
        return self.function(z)

    @property
    def kinks(self) -> tuple[Kink, ...]:
        """Where the slope jumps, with its values on both sides; empty for a smooth activation."""
        return kinks_at(self.function, self.kink_places)

    @property
    def built_in(self) -> bool:
        """Whether the name alone says which activation it is."""
        return self == _by_name(self.name)

    def __reduce__(self):
        # JAX's own functions cannot be pickled, and a copy of a function is another function.
        if self.built_in:
            return as_activation, (self.name,)
        return _rebuilt, (_by_reference(self.function), self.name, self.closed_form, self.kink_places)

    def __copy__(self) -> "Activation":
        return self

    def __deepcopy__(self, memo: dict) -> "Activation":
        return self

    def law(self, terms: int | None = None) -> PairLaw:
        """Gaussian averages: the closed form, or a Hermite series of the given length."""
        return self.closed_form or hermite_series(self.function, terms or DEFAULT_TERMS)


class _Reference(NamedTuple):
    """Where an importable function is found."""

    module: str
    name: str


def _by_reference(function: Elementwise) -> "Elementwise | _Reference":
    """Where to import the function from, if it can be imported from another program; else the function."""
    place = _Reference(getattr(function, "__module__", None) or "__main__", getattr(function, "__name__", ""))
    found = getattr(sys.modules.get(place.module), place.name, None) if place.name else None
    return place if found is function and place.module != "__main__" else function


def _rebuilt(
    function: "Elementwise | _Reference",
    name: str,
    closed_form: PairLaw | None,
    kink_places: tuple[float, ...] = (0.0,),
) -> Activation:
    """What `Activation.__reduce__` describes."""
    if isinstance(function, _Reference):
        found = getattr(importlib.import_module(function.module), function.name)
        return Activation(found, name, closed_form, kink_places)
    return Activation(function, name, closed_form, kink_places)


def _as_places(places: Any) -> tuple[float, ...]:
    """Places of kinks as plain numbers, in rising order."""
    given = (places,) if is_number(places) else places
    if not (isinstance(given, Iterable) and all(is_number(p) and math.isfinite(p) for p in given)):
        raise ValueError(f"kink_places must be finite numbers, such as (-1.0, 1.0), got {places!r}.")
    return tuple(sorted(float(p) for p in given))


def _check_on_nodes(name: str, function: Elementwise) -> None:
    """Refuse a function that is not elementwise or not finite where the quadrature looks."""
    with outside_tracing():
        nodes = jnp.asarray(gaussian_rule().nodes)
        try:
            kind = jnp.asarray(function(nodes)).dtype
            found = evaluate(function, nodes) if jnp.issubdtype(kind, jnp.floating) else None
        except Exception as error:
            raise ValueError(
                f"activation {name!r} must be a function of one array, written with jax.numpy; called with "
                f"an array of shape {nodes.shape} it raised {type(error).__name__}."
            ) from error
    if found is None:
        raise ValueError(
            f"activation {name!r} turned an array of {nodes.dtype} into one of {kind}; it must return real "
            "numbers of the type that it was given."
        )
    value, slope = found
    if value.shape != nodes.shape:
        raise ValueError(
            f"activation {name!r} turned an array of shape {nodes.shape} into shape {value.shape}; "
            "it must act elementwise."
        )
    bad = ~(np.isfinite(value) & np.isfinite(slope))
    if bad.any():
        worst = float(nodes[np.argmax(bad)])
        raise ValueError(
            f"activation {name!r} or its derivative is not finite at z = {worst:.4g} "
            f"({int(bad.sum())} of {bad.size} quadrature nodes); it must be finite on the whole line."
        )


def _step(z: Array) -> Array:
    return jnp.where(z > 0, 1.0, 0.0).astype(z.dtype)


def _mish(z: Array) -> Array:
    return z * jnp.tanh(jax.nn.softplus(z))


def _gelu(z: Array) -> Array:
    return jax.nn.gelu(z, approximate=False)


def leaky_relu(slope: float | int = 0.01) -> Activation:
    """z for z > 0 and slope * z below."""
    slope = float(slope)
    if not math.isfinite(slope):
        raise ValueError(f"leaky_relu needs a finite slope, got {slope}.")
    return _leaky_relu(slope)


def monomial(power: float | int) -> Activation:
    """z to a positive integer power."""
    if not (power >= 1 and float(power).is_integer()):
        raise ValueError(f"monomial needs a positive integer power, got {power}.")
    return _monomial(int(power))


# One activation for one parameter, however it was written: two functions would never compare equal.
@functools.cache
def _leaky_relu(slope: float) -> Activation:
    short = f"{slope:g}"
    name = short if float(short) == slope else repr(slope)
    return Activation(
        lambda z: jnp.where(z > 0, z, slope * z), f"leaky_relu:{name}", PiecewiseLinear(slope, 1.0)
    )


@functools.cache
def _monomial(power: int) -> Activation:
    return Activation(lambda z: z**power, f"monomial:{power}", Monomial(power))


class BuiltIn(NamedTuple):
    """One built-in activation: all that has to be said to add another."""

    function: Elementwise
    """Written with `jax.numpy`."""
    closed_form: PairLaw | None
    """Its exact pair law; None where it follows from `kinks`, or where a Hermite series has to do."""
    torch: str
    """Its text in PyTorch: a module, or an expression in z."""
    jax: str
    """Its text in JAX: a function."""
    kinks: tuple[float, ...] = (0.0,)
    """Where its slope may jump."""
    flat_beyond: float | None = None
    """From here on, on both sides, its slope is below a twentieth of its maximum; None without flat ends."""
    short_series: bool = True
    """Whether a short Hermite series follows its kernels through many layers, as pages of the lab need."""


_TWENTIETH = math.atanh(math.sqrt(0.95))  # the slope of tanh is 1/20 there

BUILT_IN = {
    "linear": BuiltIn(lambda z: z, PiecewiseLinear(1.0, 1.0), "nn.Identity()", "lambda z: z"),
    "relu": BuiltIn(jax.nn.relu, PiecewiseLinear(0.0, 1.0), "nn.ReLU()", "jax.nn.relu"),
    "leaky_relu": BuiltIn(
        jax.nn.leaky_relu, PiecewiseLinear(0.01, 1.0), "nn.LeakyReLU(0.01)", "jax.nn.leaky_relu"
    ),
    "abs": BuiltIn(jnp.abs, PiecewiseLinear(-1.0, 1.0), "torch.abs(z)", "jnp.abs"),
    "step": BuiltIn(_step, Step(), "(z > 0).to(z.dtype)", "lambda z: (z > 0).astype(z.dtype)"),
    "erf": BuiltIn(
        jax.scipy.special.erf,
        Erf(),
        "torch.erf(z)",
        "jax.scipy.special.erf",
        flat_beyond=math.sqrt(math.log(20)),
    ),
    "sin": BuiltIn(jnp.sin, Sinusoid(odd=True), "torch.sin(z)", "jnp.sin"),
    "cos": BuiltIn(jnp.cos, Sinusoid(odd=False), "torch.cos(z)", "jnp.cos"),
    "gelu": BuiltIn(_gelu, Gelu(), "nn.GELU()", "lambda z: jax.nn.gelu(z, approximate=False)"),
    "tanh": BuiltIn(jnp.tanh, None, "nn.Tanh()", "jnp.tanh", flat_beyond=_TWENTIETH),
    "sigmoid": BuiltIn(jax.nn.sigmoid, None, "nn.Sigmoid()", "jax.nn.sigmoid", flat_beyond=2 * _TWENTIETH),
    "softplus": BuiltIn(jax.nn.softplus, None, "nn.Softplus()", "jax.nn.softplus"),
    "silu": BuiltIn(jax.nn.silu, None, "nn.SiLU()", "jax.nn.silu", short_series=False),
    "elu": BuiltIn(jax.nn.elu, None, "nn.ELU()", "jax.nn.elu", short_series=False),
    "selu": BuiltIn(jax.nn.selu, None, "nn.SELU()", "jax.nn.selu", short_series=False),
    "mish": BuiltIn(_mish, None, "nn.Mish()", "jax.nn.mish", short_series=False),
    "relu6": BuiltIn(jax.nn.relu6, None, "nn.ReLU6()", "jax.nn.relu6", kinks=(0.0, 6.0)),
    "hard_tanh": BuiltIn(
        jax.nn.hard_tanh, None, "nn.Hardtanh()", "jax.nn.hard_tanh", kinks=(-1.0, 1.0), flat_beyond=1.0
    ),
    "hard_sigmoid": BuiltIn(
        jax.nn.hard_sigmoid,
        None,
        "nn.Hardsigmoid()",
        "jax.nn.hard_sigmoid",
        kinks=(-3.0, 3.0),
        flat_beyond=3.0,
    ),
}
# What `diagnose` recognises too: their series are too slow for kernels at the usual accuracy.
WITHOUT_KERNELS = {
    "hard_swish": BuiltIn(
        jax.nn.hard_swish, None, "nn.Hardswish()", "jax.nn.hard_swish", kinks=(-3.0, 3.0), short_series=False
    ),
    "softsign": BuiltIn(
        jax.nn.soft_sign,
        None,
        "nn.Softsign()",
        "jax.nn.soft_sign",
        flat_beyond=math.sqrt(20) - 1,
        short_series=False,
    ),
}
_ALIASES = {
    "identity": "linear",
    "swish": "silu",
    "hardtanh": "hard_tanh",
    "hardsigmoid": "hard_sigmoid",
}
_FAMILIES: dict[str, Callable[[float], Activation]] = {"leaky_relu": leaky_relu, "monomial": monomial}

ACTIVATION_NAMES: tuple[str, ...] = tuple(BUILT_IN)
_NAMES = {row.function: name for name, row in BUILT_IN.items()}


@functools.cache
def _built_in(name: str) -> Activation:
    row = BUILT_IN[name]
    return Activation(row.function, name, row.closed_form, row.kinks)


def source_texts(name: str) -> tuple[str, str]:
    """What the activation is called in PyTorch (a module, or an expression in z) and in JAX (a function)."""
    family, _, parameter = name.partition(":")
    if family == "leaky_relu" and parameter:
        return f"nn.LeakyReLU({parameter})", f"lambda z: jax.nn.leaky_relu(z, {parameter})"
    if family == "monomial":
        return f"z**{parameter}", f"lambda z: z**{parameter}"
    row = BUILT_IN.get(name)
    return ("your_activation(z)", "your_activation") if row is None else (row.torch, row.jax)


def _by_name(name: str) -> Activation | None:
    """The built-in activation of a name, or None."""
    try:
        return as_activation(name)
    except ValueError:
        return None


def as_activation(activation: "str | Activation | Elementwise") -> Activation:
    """An `Activation` from a name, a function or an `Activation`.

    Families take a parameter after a colon: ``"leaky_relu:0.2"``, ``"monomial:3"``.
    """
    if isinstance(activation, Activation):
        return activation
    if callable(activation):
        # jnp.tanh is "tanh", with everything that is known about it.
        known = _NAMES.get(activation) if isinstance(activation, Hashable) else None
        return Activation(activation) if known is None else _built_in(known)
    if not isinstance(activation, str):
        raise TypeError(f"activation must be a name, a function or an Activation, got {activation!r}.")
    name, colon, parameter = activation.strip().lower().partition(":")
    name = _ALIASES.get(name, name)
    if colon and name in _FAMILIES:
        try:
            return _FAMILIES[name](_parameter(parameter))
        except ValueError as error:
            raise ValueError(f"activation {activation!r}: {error}") from None
    if name in BUILT_IN and not colon:
        return _built_in(name)
    close = difflib.get_close_matches(name, [*ACTIVATION_NAMES, *_ALIASES], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"unknown activation {activation!r}.{hint} Known: {', '.join(ACTIVATION_NAMES)}, "
        "leaky_relu:SLOPE, monomial:POWER; or pass any function."
    )


def _parameter(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} after the colon is not a number.") from None
