"""A convolution: the same random weights at every position."""

import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from finitewidth.architecture.dense import Affine, AffineLayer, Hyperparameter
from finitewidth.architecture.layer import Shape, as_shape
from finitewidth.architecture.parametrisation import Place
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.windows import Axis, Windowed, as_windows


@word("Conv")
class Conv(AffineLayer, Windowed):
    r"""A convolution over positions, $z_{ip} = b_i + \sum_{d\in D}\sum_j W_{i;dj}\,s_{j,\,tp+d}$.

    D is the window with |D| taps and t the stride; inputs are (\*positions, n channels). The fan-in of a
    neuron is |D| n: $W\sim N(0, C_W/(|D|n))$, moved with rate $\lambda_W/(|D|n)$. Biases have variance
    $C_b$ and rate $\lambda_b$. The weight is a matrix (width, |D| n), taps in row-major order and
    channels last.

    Parameters
    ----------
    width
        Number of channels that leave.
    window
        Size of the window along each axis of positions: 3 or (3,) for sequences, (3, 3) for images.
    strides
        Positions from one window to the next, one number or one per axis.
    padding
        "SAME" (zeros; a stride of 1 keeps all positions), "VALID" (none) or "CIRCULAR" (the opposite side).
    C_b, C_W
        Variances of biases and (rescaled) weights. Both `None` means the critical point of the activation
        next to this layer in its `Sequential`, and C_b = 0, C_W = 1 where there is none.
    lambda_b, lambda_W
        Learning rates of biases and (rescaled) weights.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.Sequential(fw.Conv(16, (3, 3)), fw.Activate("relu"), fw.GlobalAveragePool(), fw.Dense(1))
    >>> params = net.init(jax.random.key(0), (8, 8, 3))
    >>> net.apply(params, jax.numpy.ones((5, 8, 8, 3))).shape
    (5, 1)
    """

    width: int = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        window: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "SAME",
        C_b: Hyperparameter | None = None,
        C_W: Hyperparameter | None = None,
        lambda_b: Hyperparameter = 1.0,
        lambda_W: Hyperparameter = 1.0,
    ):
        (self.width,) = as_shape("width", width)
        self.windows = as_windows(window, strides, padding)
        super().__init__(C_b, C_W, lambda_b, lambda_W)

    @classmethod
    def from_entry(cls, entry: Entry) -> "Conv":
        width, window = entry.value("width", entry.sizes.width), entry.value("filter")
        strides, padding = entry.value("strides", 1), entry.text("padding", "SAME")
        return cls(width, window, strides, padding, **entry.affine())

    def entry(self) -> dict[str, Any]:
        window = {"filter": list(self.window), "strides": list(self.strides), "padding": self.padding}
        return {"layer": "Conv", "width": self.width, **window, **self.hyperparameters.as_settings()}

    def channels(self, entering: int | None) -> int:
        return self.width

    def leaving(self, entering: Shape) -> Shape:
        axes = self.windows.axes("Conv", entering)
        return (*(axis.leaving for axis in axes), self.width)

    def apply(self, params: Affine, x: Array) -> Array:
        axes = self.windows.axes("Conv", x.shape[1:])
        taken, sizes = params.weight.shape[1], self.windows.sizes
        if x.shape[-1] * self.windows.taps != taken:
            raise ValueError(
                f"a Conv layer got inputs of shape {x.shape[1:]}; its weight, {params.weight.shape}, takes "
                f"{taken // self.windows.taps} channels under a window {sizes}."
            )
        # Patches and one product: networks that are drawn many at a time run faster so than by a convolution
        # of the library, which has one kernel.
        padded = self.windows.padded(x, axes, 1)
        taps = [self._under(padded, tap, axes) for tap in itertools.product(*map(range, sizes))]
        return jnp.concatenate(taps, axis=-1) @ params.weight.T + params.bias

    def _under(self, padded: Array, tap: tuple[int, ...], axes: tuple[Axis, ...]) -> Array:
        """What stands under one tap of every window, (points, *positions that leave, channels)."""
        for number, (start, axis, stride) in enumerate(zip(tap, axes, self.strides, strict=True), start=1):
            end = start + (axis.leaving - 1) * stride + 1
            padded = lax.slice_in_dim(padded, start, end, stride, number)
        return padded

    def place(self, entering: Shape | int) -> Place:
        shape = as_shape("entering", entering)
        self.windows.axes("Conv", shape)
        fan_in = self.windows.taps * shape[-1]
        return Place(fan_in, self.width, self.around.width, self.around.first, self.around.last)
