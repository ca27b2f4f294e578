"""Code to paste: a residual network with its initialisation and parameter groups, in PyTorch and in Flax."""

from string import Template
from typing import Literal, NamedTuple, get_args

from finitewidth.architecture.activations import source_texts

Framework = Literal["pytorch", "flax"]


class Setting(NamedTuple):
    """The network: sizes, where its norms are, factors and variances."""

    activation: str
    n_in: int
    width: int
    blocks: int
    n_out: int
    norm: str
    branch_scale: float
    C_b: float
    C_W: float
    C_W_last: float


_HEAD = """\
n_in, width, blocks, n_out = $n_in, $width, $blocks, $n_out
branch_scale = $branch_scale
C_b, C_W, C_W_last = $C_b, $C_W, $C_W_last
rates = $rates
"""

_TORCH = Template(
    """\
import torch
from torch import nn
$neuron
"""
    + _HEAD
    + """

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.activation = $module
        self.norm = $norm

    def forward(self, z):
        return $block


hidden = [Block() for _ in range(blocks)]
model = nn.Sequential(nn.Linear(n_in, width), *hidden, $top, nn.Linear(width, n_out))
first, last = model[0], model[-1]
for linear, bias_variance, weight_variance in [
    (first, 0.0, 1 / n_in),
    *[(block.linear, C_b, C_W / width) for block in hidden],
    (last, 0.0, C_W_last / width),
]:
    nn.init.normal_(linear.weight, std=weight_variance**0.5)
    nn.init.normal_(linear.bias, std=bias_variance**0.5)

matrices = [block.linear.weight for block in hidden]
groups = [
    {"params": [first.weight], "lr": rates["first weights"]},
    {"params": [last.weight], "lr": rates["last weights"]},
    {"params": [first.bias, *[block.linear.bias for block in hidden]], "lr": rates["hidden biases"]},
    {"params": [last.bias], "lr": rates["last bias"]},
]
$optimizers
"""
)

_TORCH_OPTIMIZERS = {
    "sgd": 'groups.append({"params": matrices, "lr": rates["block weights"]})\n'
    "optimizers = [torch.optim.SGD(groups)]",
    "adam": 'groups.append({"params": matrices, "lr": rates["block weights"]})\n'
    "optimizers = [torch.optim.Adam(groups)]",
    "muon": 'muon = torch.optim.Muon(matrices, lr=rates["block weights"], weight_decay=0.0)\n'
    "optimizers = [muon, torch.optim.Adam(groups)]",
}

_FLAX = Template(
    """\
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

"""
    + _HEAD
    + """activation = $function
normal = nn.initializers.normal
norm = lambda z: nn.LayerNorm(epsilon=1e-12, use_bias=False, use_scale=False)(z)


class Block(nn.Module):
    @nn.compact
    def __call__(self, z):
        linear = nn.Dense(
            width, kernel_init=normal((C_W / width) ** 0.5), bias_init=normal(C_b**0.5), name="linear"
        )
        return $block


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        z = nn.Dense(width, kernel_init=normal(n_in**-0.5), name="first")(x)
        for i in range(blocks):
            z = Block(name=f"block_{i}")(z)
        return nn.Dense(n_out, kernel_init=normal((C_W_last / width) ** 0.5), name="last")($top)


def group(path, leaf):
    names = [part.key for part in path]
    if names[-1] == "bias":
        return "last bias" if "last" in names else "hidden biases"
    return next((f"{name} weights" for name in ("first", "last") if name in names), "block weights")


model = Model()
methods = {name: $method for name, rate in rates.items()}
optimizer = optax.multi_transform(
    methods, lambda params: jax.tree_util.tree_map_with_path(group, params)
)
"""
)

_FLAX_METHODS = {
    "sgd": "optax.sgd(rate)",
    "adam": "optax.adam(rate)",
    "muon": 'optax.contrib.muon(rate) if name == "block weights" else optax.adam(rate)',
}


def program(framework: Framework, setting: Setting, optimizer: str, rates: dict[str, float]) -> str:
    """Model, initialisation and optimiser."""
    if framework not in get_args(Framework):
        raise ValueError(f"framework must be one of {', '.join(get_args(Framework))}, got {framework!r}.")
    _, function = source_texts(setting.activation)
    numbers = {
        name: f"{value:.10g}" if isinstance(value, float) else value
        for name, value in setting._asdict().items()
        if name not in ("activation", "norm")
    }
    listed = ",\n".join(f'    "{name}": {rate:.6g}' for name, rate in rates.items())
    shown = numbers | {"rates": "{\n" + listed + ",\n}"}
    if framework == "flax":
        activated = {"pre": "activation(norm(z))"}.get(setting.norm, "activation(z)")
        block = f"z + branch_scale * linear({activated})"
        return _FLAX.substitute(
            shown,
            function=function,
            block=f"norm({block})" if setting.norm == "post" else block,
            top="norm(z)" if setting.norm == "pre" else "activation(z)",
            method=_FLAX_METHODS[optimizer],
        )
    neuron, torch = torch_neuron(setting.activation)
    layer_norm = "nn.LayerNorm(width, eps=1e-12, elementwise_affine=False)"
    inner = "self.norm(z)" if setting.norm == "pre" else "z"
    block = f"z + branch_scale * self.linear(self.activation({inner}))"
    return _TORCH.substitute(
        shown,
        neuron=neuron,
        module=torch,
        norm="nn.Identity()" if setting.norm == "none" else layer_norm,
        block=f"self.norm({block})" if setting.norm == "post" else block,
        top=layer_norm if setting.norm == "pre" else torch,
        optimizers=_TORCH_OPTIMIZERS[optimizer],
    )


def torch_neuron(activation: str) -> tuple[str, str]:
    """The definition of an activation's module, empty if PyTorch has it, and what makes one."""
    torch, _ = source_texts(activation)
    if torch.startswith("nn."):
        return "", torch
    return f"\n\nclass Neuron(nn.Module):\n    def forward(self, z):\n        return {torch}\n\n", "Neuron()"
