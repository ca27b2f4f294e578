"""Code to paste: the recommended initialisation and learning rates in PyTorch and in JAX."""

from string import Template
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.activations import source_texts
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack

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
    nn.init.normal_(linear.weight, std=($weight_variance / fan_in) ** 0.5)
    nn.init.normal_(linear.bias, std=$bias_variance**0.5)
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
    for i, (fan_in, fan_out) in enumerate(zip(widths[:-1], widths[1:])):
        weight_key, bias_key = jax.random.split(jax.random.fold_in(key, i))
        weight = jax.random.normal(weight_key, (fan_in, fan_out)) * ($weight_variance / fan_in) ** 0.5
        bias = jax.random.normal(bias_key, (fan_out,)) * $bias_variance**0.5
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


class Snippets(NamedTuple):
    """The same network in both frameworks."""

    pytorch: str
    jax: str


def snippets(net: Layer, n_in: int, eta: float, eta_comment: str) -> Snippets:
    """Code for the model, its initialisation and steps with the learning rates of every layer."""
    net = dense_stack(net)
    torch, function = source_texts(net.activation.name)
    neuron = ""
    if not torch.startswith("nn."):
        neuron = f"\n\nclass Neuron(nn.Module):\n    def forward(self, z):\n        return {torch}\n\n"
        torch = "Neuron()"
    C_b, C_W = np.asarray(net.C_b), np.asarray(net.C_W)
    shown = {
        "widths": _layout([n_in, *net.hidden, net.n_out]),
        "C_b": _variance(C_b),
        "C_W": _variance(C_W),
        "bias_variance": "C_b" if np.ptp(C_b) == 0 else "C_b[i]",
        "weight_variance": "C_W" if np.ptp(C_W) == 0 else "C_W[i]",
        "eta": f"{eta:.4g}",
        "eta_comment": eta_comment,
        "bias_rates": _rates(net.lambda_b),
        "weight_rates": _rates(net.lambda_W),
    }
    return Snippets(
        _TORCH.substitute(shown, neuron=neuron, module=torch), _JAX.substitute(shown, function=function)
    )


def _layout(widths: list[int]) -> str:
    hidden = widths[1:-1]
    same = len(hidden) > 3 and len(set(hidden)) == 1
    return f"[{widths[0]}] + [{hidden[0]}] * {len(hidden)} + [{widths[-1]}]" if same else str(widths)


def _variance(values: Float[np.ndarray, " depth"]) -> str:
    numbers = [f"{value:.10g}" for value in values]
    return numbers[0] if np.ptp(values) == 0 else f"[{', '.join(numbers)}]"


def _rates(rates: Float[Array, " depth"]) -> str:
    return "[" + ", ".join(f"{r:.4g}" for r in np.asarray(rates)) + "]"
