"""The activations of the lab: a fixed list, since each one compiles programs of its own."""

ACTIVATIONS = tuple(
    (name, name.replace("_", " "))
    for name in (
        "tanh", "erf", "relu", "gelu", "silu", "sin", "softplus", "sigmoid", "elu", "selu", "mish",
        "leaky_relu", "linear",
    )
)  # fmt: skip
