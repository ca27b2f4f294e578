"""Advice for convolutional networks: initialisation, largest step, rates by layer, as code for PyTorch."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import check_positive
from finitewidth.advice.tuning.largest_step import largest_ntk_eigenvalue
from finitewidth.advice.tuning.residual_code import torch_neuron
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.convolution import Conv
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.image_networks import ConvNet
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import layer_shapes
from finitewidth.architecture.pooling import Flatten
from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import trajectory

# Variances of biases and weights, times the number of inputs, in PyTorch's nn.Conv2d and nn.Linear.
_PYTORCH = (1 / 3, 1 / 3)


class ConvolutionalTuning(eqx.Module):
    """Advice for a convolutional network.

    Attributes
    ----------
    net
        The network with the critical initialisation of its activation.
    eta_max
        Largest stable step of gradient descent on the sum of squares: 2 / lambda_max of the NTK on the data.
    points
        Number of training points that `eta_max` is for.
    signals
        Variance above every convolution and of the outputs, the mean over points and positions, with this
        advice and with PyTorch's default initialisation.
    """

    net: Sequential
    entering: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    eta_max: float = eqx.field(static=True)
    points: int = eqx.field(static=True)
    signals: dict[str, Float[np.ndarray, " layers"]]

    def rates(self, learning_rate: float | None = None) -> list[dict[str, float]]:
        """Rates of weights and biases of every layer for gradient descent; half of `eta_max` by default."""
        if learning_rate is not None:
            check_positive("learning_rate", learning_rate)
        eta = self.eta_max / 2 if learning_rate is None else learning_rate
        return [
            {"weight": eta * float(rate.weight), "bias": eta * float(rate.bias)}
            for rate in self.net.learning_rates(self.entering)
            if rate
        ]

    def code(self, learning_rate: float | None = None) -> str:
        """A program in PyTorch: model, initialisation, and SGD with its parameter groups.

        Its inputs are (points, channels, height, width), its loss half the sum of squares.
        """
        neuron, module = torch_neuron(self.activation.name)
        affine = [
            (part, below)
            for part, below, _ in layer_shapes(self.net, self.entering)
            if isinstance(part, Conv | Dense)
        ]
        lines = []
        for part, below in affine:
            if isinstance(part, Conv):
                same = '"same"' if part.padding == "SAME" else "0"
                lines.append(
                    f"nn.Conv2d({below[-1]}, {part.width}, {part.window}, {part.strides}, padding={same})"
                )
                lines.append(module)
            else:
                head = "nn.Flatten()" if any(isinstance(p, Flatten) for p in self.net.layers) else None
                lines += [head] if head else ["nn.AdaptiveAvgPool2d(1)", "nn.Flatten()"]
                lines.append(f"nn.Linear({below[-1]}, {part.width})")
        variances = [tuple(float(v) for v in part.hyperparameters[:2]) for part, _ in affine]
        stack = "".join(f"    {line},\n" for line in lines)
        return _PROGRAM.format(
            neuron=neuron, stack=stack, variances=variances, rates=self.rates(learning_rate)
        )


_PROGRAM = """\
import torch
from torch import nn
{neuron}
model = nn.Sequential(
{stack})
variances = {variances}  # of biases, and of weights times their number of inputs
rates = {rates}
layers = [layer for layer in model if isinstance(layer, (nn.Conv2d, nn.Linear))]
for layer, (C_b, C_W) in zip(layers, variances):
    nn.init.normal_(layer.weight, std=(C_W / layer.weight[0].numel()) ** 0.5)
    nn.init.normal_(layer.bias, std=C_b**0.5)
optimizer = torch.optim.SGD(
    [
        {{"params": [getattr(layer, name)], "lr": rate}}
        for layer, by_name in zip(layers, rates)
        for name, rate in by_name.items()
    ]
)
"""


def tune_convolutional(
    channels: Sequence[int],
    x: ArrayLike,
    *,
    window: int | Sequence[int] = (3, 3),
    activation: str | Activation | Elementwise = "relu",
    strides: int | Sequence[int] = 1,
    padding: str = "SAME",
    head: str = "pool",
    readout_scale: float | int = 1.0,
    n_out: int = 1,
) -> ConvolutionalTuning:
    """Initialisation, rates by layer and the largest step for convolutions with an activation behind each.

    Parameters
    ----------
    channels, window, activation, strides, padding, head, n_out
        As for `ConvNet`. PyTorch pads by zeros at the edges with stride 1 only.
    x
        Training images, (points, height, width, channels).
    readout_scale
        Factor of the readout's first weights, as for `tune_residual`.

    Examples
    --------
    >>> import numpy as np, finitewidth as fw
    >>> x = np.random.default_rng(0).normal(size=(5, 4, 4, 1))
    >>> advice = fw.tune_convolutional((8, 8), x, n_out=2)
    >>> len(advice.rates()), [name for name in advice.signals]
    (3, ['recommended', 'PyTorch'])
    """
    check_positive("readout_scale", readout_scale)
    activation = as_activation(activation)
    net = ConvNet(channels, window, activation, strides=strides, padding=padding, head=head, n_out=n_out)
    *below, last = net.layers
    assert isinstance(last, Dense)
    C_b, C_W = (float(number) for number in last.hyperparameters[:2])
    net = Sequential(*below, Dense(n_out, C_b, float(readout_scale) ** 2 * C_W))
    inputs = as_inputs("x", x, net).astype(float)
    if inputs.ndim != 4:
        raise ValueError(f"x must be images (points, height, width, channels), got shape {inputs.shape}.")
    if padding not in ("SAME", "VALID") or (padding == "SAME" and np.any(np.asarray(strides) != 1)):
        raise ValueError(
            f"padding={padding!r} with strides={strides!r} has no layer of PyTorch: use 'VALID', or 'SAME' "
            "with strides 1."
        )
    default = _with_variances(net, inputs.shape[1:])
    signals = {
        name: np.asarray(jnp.mean(trajectory(one, inputs).nngp, axis=1))
        for name, one in {"recommended": net, "PyTorch": default}.items()
    }
    eta_max = 2 / largest_ntk_eigenvalue(net, inputs)
    return ConvolutionalTuning(net, inputs.shape[1:], activation, eta_max, len(inputs), signals)


def _with_variances(net: Sequential, entering: tuple[int, ...]) -> Sequential:
    """The same network with PyTorch's initialisation."""
    layers: list[Layer] = []
    for part, below, _ in layer_shapes(net, entering):
        if isinstance(part, Conv):
            fan_in = below[-1] * int(np.prod(part.window))
            numbers = _PYTORCH[0] / fan_in, _PYTORCH[1]
            layers.append(Conv(part.width, part.window, part.strides, part.padding, *numbers))
        elif isinstance(part, Dense):
            layers.append(Dense(part.width, _PYTORCH[0] / below[-1], _PYTORCH[1]))
        else:
            layers.append(part)
    return Sequential(*layers)
