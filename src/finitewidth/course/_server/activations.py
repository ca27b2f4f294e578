"""The activations of the lab: a fixed list, since each one compiles programs of its own."""

from finitewidth.architecture.activations import BUILT_IN

ACTIVATIONS = tuple(
    (name, name.replace("_", " "))
    for name in (
        "tanh", "erf", "relu", "gelu", "silu", "sin", "softplus", "sigmoid", "elu", "selu", "mish",
        "leaky_relu", "linear",
    )
)  # fmt: skip

# No slider for C_W where a short Hermite series loses the kernels.
SHORT_SERIES = tuple((name, label) for name, label in ACTIVATIONS if BUILT_IN[name].short_series)
