"""Code to paste: the recommended initialisation and learning rates in PyTorch and in JAX."""

from collections.abc import Sequence
from string import Template

import numpy as np

_TORCH_MODULES = {
    "linear": "nn.Identity()",
    "relu": "nn.ReLU()",
    "tanh": "nn.Tanh()",
    "gelu": "nn.GELU()",
    "sigmoid": "nn.Sigmoid()",
    "softplus": "nn.Softplus()",
    "silu": "nn.SiLU()",
    "elu": "nn.ELU()",
    "selu": "nn.SELU()",
    "mish": "nn.Mish()",
    "leaky_relu": "nn.LeakyReLU(0.01)",
}
_TORCH_FUNCTIONS = {"abs": "torch.abs", "erf": "torch.erf", "sin": "torch.sin", "cos": "torch.cos"}
_JAX_FUNCTIONS = {
    "linear": "lambda z: z",
    "relu": "jax.nn.relu",
    "tanh": "jnp.tanh",
    "gelu": "lambda z: jax.nn.gelu(z, approximate=False)",
    "sigmoid": "jax.nn.sigmoid",
    "softplus": "jax.nn.softplus",
    "silu": "jax.nn.silu",
    "elu": "jax.nn.elu",
    "selu": "jax.nn.selu",
    "mish": "jax.nn.mish",
    "leaky_relu": "jax.nn.leaky_relu",
    "abs": "jnp.abs",
    "erf": "jax.scipy.special.erf",
    "sin": "jnp.sin",
    "cos": "jnp.cos",
}

_TORCH = Template("""\
import torch
from torch import nn
$neuron
widths = $widths
C_b, C_W = $C_b, $C_W
eta = $eta  # $eta_comment
bias_rates = $bias_rates
weight_rates = $weight_rates  # divided by the fan-in below

layers, groups = [], []
for i, (fan_in, fan_out) in enumerate(zip(widths[:-1], widths[1:])):
    linear = nn.Linear(fan_in, fan_out)
    nn.init.normal_(linear.weight, std=(C_W / fan_in) ** 0.5)
    nn.init.normal_(linear.bias, std=C_b**0.5)
    groups.append({"params": [linear.weight], "lr": eta * weight_rates[i] / fan_in})
    groups.append({"params": [linear.bias], "lr": eta * bias_rates[i]})
    layers += [linear, $module]
model = nn.Sequential(*layers[:-1])
optimizer = torch.optim.SGD(groups, lr=eta)
""")

_JAX = Template("""\
import jax
import jax.numpy as jnp

widths = $widths
C_b, C_W = $C_b, $C_W
eta = $eta  # $eta_comment
bias_rates = $bias_rates
weight_rates = $weight_rates  # divided by the fan-in below
activation = $function


def init(key):
    params = []
    for key, fan_in, fan_out in zip(jax.random.split(key, len(widths) - 1), widths[:-1], widths[1:]):
        weight_key, bias_key = jax.random.split(key)
        weight = jax.random.normal(weight_key, (fan_in, fan_out)) * (C_W / fan_in) ** 0.5
        bias = jax.random.normal(bias_key, (fan_out,)) * C_b**0.5
        params.append((weight, bias))
    return params


def apply(params, x):
    for weight, bias in params[:-1]:
        x = activation(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


def loss(params, x, y):
    return 0.5 * jnp.sum((apply(params, x) - y) ** 2)


@jax.jit
def step(params, x, y):
    gradients = jax.grad(loss)(params, x, y)
    return [
        (w - eta * weight_rates[i] / w.shape[0] * dw, b - eta * bias_rates[i] * db)
        for i, ((w, b), (dw, db)) in enumerate(zip(params, gradients))
    ]
""")


def pytorch_snippet(
    activation: str,
    widths: Sequence[int],
    C_b: float,
    C_W: float,
    bias_rates: np.ndarray,
    weight_rates: np.ndarray,
    eta: float,
    eta_comment: str,
) -> str:
    """PyTorch code for the model, its initialisation and an optimizer with per-layer rates."""
    name, _, parameter = activation.partition(":")
    neuron = ""
    if name == "leaky_relu" and parameter:
        module = f"nn.LeakyReLU({parameter})"
    elif name in _TORCH_MODULES:
        module = _TORCH_MODULES[name]
    else:
        formula = f"{_TORCH_FUNCTIONS.get(name, 'your_activation')}(z)"
        if name == "monomial":
            formula = f"z**{parameter}"
        neuron = f"\n\nclass Neuron(nn.Module):\n    def forward(self, z):\n        return {formula}\n\n"
        module = "Neuron()"
    numbers = _numbers(widths, C_b, C_W, bias_rates, weight_rates, eta, eta_comment)
    return _TORCH.substitute(numbers, neuron=neuron, module=module)


def jax_snippet(
    activation: str,
    widths: Sequence[int],
    C_b: float,
    C_W: float,
    bias_rates: np.ndarray,
    weight_rates: np.ndarray,
    eta: float,
    eta_comment: str,
) -> str:
    """JAX code for the model, its initialisation and one step with per-layer rates."""
    name, _, parameter = activation.partition(":")
    function = _JAX_FUNCTIONS.get(name, "your_activation")
    if name == "leaky_relu" and parameter:
        function = f"lambda z: jax.nn.leaky_relu(z, {parameter})"
    elif name == "monomial":
        function = f"lambda z: z**{parameter}"
    numbers = _numbers(widths, C_b, C_W, bias_rates, weight_rates, eta, eta_comment)
    return _JAX.substitute(numbers, function=function)


def _numbers(widths, C_b, C_W, bias_rates, weight_rates, eta, eta_comment) -> dict[str, str]:
    hidden = widths[1:-1]
    same = len(hidden) > 3 and len(set(hidden)) == 1
    layout = f"[{widths[0]}] + [{hidden[0]}] * {len(hidden)} + [{widths[-1]}]" if same else str(list(widths))
    return {
        "widths": layout,
        "C_b": f"{C_b:.10g}",
        "C_W": f"{C_W:.10g}",
        "eta": f"{eta:.4g}",
        "eta_comment": eta_comment,
        "bias_rates": _rates(bias_rates),
        "weight_rates": _rates(weight_rates),
    }


def _rates(rates: np.ndarray) -> str:
    return "[" + ", ".join(f"{r:.4g}" for r in rates) + "]"
