"""Convolutional networks, put together."""

from collections.abc import Sequence

from finitewidth._base.arrays import Elementwise
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.convolution import Conv
from finitewidth.architecture.dense import Dense, Hyperparameter
from finitewidth.architecture.layer import Layer, as_sizes
from finitewidth.architecture.normalisation import Normalisation
from finitewidth.architecture.parametrisation import Parametrisation
from finitewidth.architecture.pooling import Flatten, GlobalAveragePool
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential
from finitewidth.architecture.windows import as_windows

_HEADS = {"pool": GlobalAveragePool, "flatten": Flatten}


def ConvNet(
    channels: Sequence[int],
    window: int | Sequence[int] = (3, 3),
    activation: str | Activation | Elementwise = "relu",
    *,
    strides: int | Sequence[int] = 1,
    padding: str = "SAME",
    head: str = "pool",
    C_b: Hyperparameter | None = None,
    C_W: Hyperparameter | None = None,
    lambda_b: Hyperparameter = 1.0,
    lambda_W: Hyperparameter = 1.0,
    n_out: int = 1,
    parametrisation: str | Parametrisation = "ntk",
) -> Sequential:
    """Convolutions with an activation behind each, positions pooled or flattened, and a readout.

    Parameters
    ----------
    channels
        Channels of every convolution, one number each.
    window, strides, padding
        Of every convolution: see `Conv`.
    activation
        A name, an `Activation`, or any elementwise function.
    head
        "pool" averages over all positions, "flatten" gives every position its own readout weights.
    C_b, C_W
        Variances of all layers; both `None`, the default: the critical point of the activation.
    lambda_b, lambda_W
        Learning rates of all biases and (rescaled) weights.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.ConvNet((16, 16), (3, 3), "relu", head="flatten")
    >>> fw.kernels(net, jax.random.normal(jax.random.key(0), (4, 6, 6, 3))).ntk.shape
    (4, 4)
    """
    widths = as_sizes("channels", channels)
    if not widths:
        raise ValueError("channels must hold one number per convolution, got none.")
    if head not in _HEADS:
        raise ValueError(f'head must be "pool" or "flatten", got {head!r}.')
    numbers = (C_b, C_W, lambda_b, lambda_W)
    layers: list[Layer] = []
    for width in widths:
        layers += [Conv(width, window, strides, padding, *numbers), Activate(activation)]
    return Sequential(*layers, _HEADS[head](), Dense(n_out, *numbers), parametrisation=parametrisation)


def ResNet(
    channels: Sequence[int] = (64, 128, 256),
    blocks: int = 2,
    window: int | Sequence[int] = (3, 3),
    activation: str | Activation | Elementwise = "relu",
    *,
    norm: Normalisation | None = None,
    beta: float | None = None,
    padding: str = "SAME",
    n_out: int = 1,
    parametrisation: str | Parametrisation = "ntk",
) -> Sequential:
    r"""A residual network for images: stages of blocks of two convolutions, pooled, and a readout.

    A block is $z + \beta\,\mathrm{conv}(\sigma(\mathrm{conv}(\sigma(z))))$. From the second stage on the
    first block has stride 2 and a convolution of one pixel as its shortcut.

    Parameters
    ----------
    channels
        Channels of every stage.
    blocks
        Blocks of a stage.
    window, padding
        Of the convolutions: see `Conv`.
    activation
        A name, an `Activation`, or any elementwise function.
    norm
        A norm, such as `LayerNorm()`, before every activation; none by default.
    beta
        Factor of the branches; by default one over the root of their number.
    """
    widths, (blocks,) = as_sizes("channels", channels), as_sizes("blocks", (blocks,))
    if not widths:
        raise ValueError("channels must hold one number per stage, got none.")
    sizes = as_windows(window, 1, padding).sizes
    factor = (len(widths) * blocks) ** -0.5 if beta is None else beta
    neurons = (*(() if norm is None else (norm,)), Activate(activation))

    def block(width: int, strides: int = 1) -> Residual:
        convolutions = Conv(width, sizes, strides, padding), Conv(width, sizes, 1, padding)
        shortcut = Conv(width, (1,) * len(sizes), strides, padding) if strides > 1 else ()
        body = (*neurons, convolutions[0], *neurons, convolutions[1])
        return Residual(*body, beta=factor, shortcut=shortcut)

    layers: list[Layer] = [Conv(widths[0], sizes, 1, padding, 0.0, 1.0)]
    for stage, width in enumerate(widths):
        alike = blocks if stage == 0 else blocks - 1
        layers += [] if stage == 0 else [block(width, 2)]
        layers += [Repeat(block(width), alike)] if alike else []
    top = (*neurons, GlobalAveragePool(), Dense(n_out))
    return Sequential(*layers, *top, parametrisation=parametrisation)
