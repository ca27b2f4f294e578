"""The activations of the lab: a fixed list, since each one compiles programs of its own."""

ACTIVATIONS = tuple(
    (name, name.replace("_", " "))
    for name in (
        "tanh", "erf", "relu", "gelu", "silu", "sin", "softplus", "sigmoid", "elu", "selu", "mish",
        "leaky_relu", "linear",
    )
)  # fmt: skip

# Their kernels grow so fast with depth that a short Hermite series loses them: no slider for C_W there.
LONG_SERIES = ("silu", "elu", "selu", "mish")
SHORT_SERIES = tuple((name, label) for name, label in ACTIVATIONS if name not in LONG_SERIES)
