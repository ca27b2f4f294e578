r"""Advice for residual networks: branch scale, initialisation, largest step and rates by parameter group.

A branch $b+W\sigma(\cdot)$ behind the factor $\beta$ multiplies squared gradients by $1+\beta^2C_Wh$ and
adds $\beta^2(C_b+C_Wg)$ to the variance. With $\beta=1$ that is exponential growth, linear behind a norm;
with $\beta=1/\sqrt L$ for L blocks signal, gradients, NTK and fluctuations of order 1/width stay of order one
at every depth.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import check_positive, check_whole
from finitewidth.advice.tuning.largest_step import largest_ntk_eigenvalue
from finitewidth.advice.tuning.parameter_groups import Optimizer, Scaling, group_rates
from finitewidth.advice.tuning.residual_code import Framework, Setting, program
from finitewidth.advice.tuning.residual_depth import ResidualDepth, residual_depth
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.critical_point import layer_response
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.normalisation import LayerNorm
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.residual_mlp import ResidualMLP
from finitewidth.architecture.sequential import Repeat, Sequential
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs

Norm = Literal["none", "pre", "post"]
NORMS: tuple[str, ...] = ("none", "pre", "post")
_UNKNOWN = (
    "the expansion in 1/width is known for residual networks without a norm; monte_carlo_kernels measures "
    "how much the NTK of others varies."
)


class BlockSignals(NamedTuple):
    """Signals and gradients by block, for one input; entry l is the stream that enters block l.

    Attributes
    ----------
    variance
        Of a channel of the stream, (blocks + 1,).
    gradient
        Mean square of the derivative of what enters the readout by a channel of the stream, (blocks + 1,).
    """

    variance: Float[np.ndarray, " streams"]
    gradient: Float[np.ndarray, " streams"]


class ResidualTuning(eqx.Module):
    """Advice for a residual network.

    Attributes
    ----------
    net
        The network with the recommended initialisation and branch scale.
    blocks, width, norm
        As asked for.
    branch_scale
        The factor in front of every branch.
    C_b, C_W
        Variances of biases and (rescaled) weights in the branches.
    reasons
        Why this branch scale and this initialisation.
    eta_max
        Largest stable step of gradient descent on the sum of squares: 2 / lambda_max of the NTK on the data;
        without data, for one training point.
    points
        Number of training points that `eta_max` is for.
    depth
        How much networks differ between initialisations, and how many blocks this width has room for; None
        behind a norm.
    verdict
        What that means.
    signals
        Signals and gradients with this advice, and with the frameworks' defaults and branches of scale one.
    """

    net: Sequential
    activation: Activation = eqx.field(static=True)
    blocks: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    n_in: int = eqx.field(static=True)
    n_out: int = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    branch_scale: float = eqx.field(static=True)
    C_b: float = eqx.field(static=True)
    C_W: float = eqx.field(static=True)
    reasons: Mapping[str, str] = eqx.field(static=True)
    eta_max: float = eqx.field(static=True)
    points: int = eqx.field(static=True)
    depth: ResidualDepth | None = eqx.field(static=True)
    verdict: str = eqx.field(static=True)
    signals: dict[str, BlockSignals]

    def rates(
        self,
        optimizer: Optimizer = "sgd",
        scaling: Scaling = "standard",
        *,
        learning_rate: float | None = None,
        base_width: int | None = None,
        base_blocks: int | None = None,
    ) -> dict[str, float]:
        """Learning rates by parameter group.

        Parameters
        ----------
        optimizer
            "sgd", "adam" or "muon" (whose matrices are the weights of the blocks; the rest is left to Adam).
        scaling
            "standard" or "mup".
        learning_rate
            The global step: for "sgd" in units of the NTK, half of `eta_max` by default, for the others the
            rate that was found good at `base_width` and `base_blocks`, 0.001 by default.
        base_width, base_blocks
            Where the learning rate comes from; this network itself by default.
        """
        if learning_rate is not None:
            check_positive("learning_rate", learning_rate)
        default = self.eta_max / 2 if optimizer == "sgd" else 1e-3
        return group_rates(
            optimizer, scaling, default if learning_rate is None else learning_rate,
            sizes=(self.n_in, self.width, self.n_out), base_width=base_width or self.width,
            depth_ratio=(base_blocks or self.blocks) / self.blocks,
        )  # fmt: skip

    def code(
        self,
        framework: Framework = "pytorch",
        optimizer: Optimizer = "sgd",
        scaling: Scaling = "standard",
        *,
        learning_rate: float | None = None,
        base_width: int | None = None,
        base_blocks: int | None = None,
    ) -> str:
        """A program in PyTorch, or in Flax and Optax: model, initialisation, optimiser with its groups."""
        rates = self.rates(
            optimizer, scaling, learning_rate=learning_rate, base_width=base_width, base_blocks=base_blocks
        )
        last = self.net.layers[-1]
        assert isinstance(last, Dense)
        narrowed = (base_width or self.width) / self.width if scaling == "mup" else 1.0
        setting = Setting(
            self.activation.name, self.n_in, self.width, self.blocks, self.n_out, self.norm,
            self.branch_scale, self.C_b, self.C_W, float(last.hyperparameters.C_W) * narrowed,
        )  # fmt: skip
        return program(framework, setting, optimizer, rates)

    def to_dict(self) -> dict:
        """Plain numbers, lists and strings, ready for JSON."""
        return {
            "activation": self.activation.name,
            "blocks": self.blocks,
            "width": self.width,
            "norm": self.norm,
            "branch_scale": self.branch_scale,
            "C_b": self.C_b,
            "C_W": self.C_W,
            "reasons": dict(self.reasons),
            "eta_max": self.eta_max,
            "points": self.points,
            "depth": None if self.depth is None else self.depth.to_dict(),
            "verdict": self.verdict,
            "rates": self.rates(),
            "signals": {
                name: {"variance": list(map(float, s.variance)), "gradient": list(map(float, s.gradient))}
                for name, s in self.signals.items()
            },
        }


def tune_residual(
    activation: str | Activation | Elementwise,
    blocks: int,
    width: int,
    x: ArrayLike | None = None,
    *,
    norm: Norm = "none",
    branch_scale: float | None = None,
    readout_scale: float | int = 1.0,
    n_in: int | None = None,
    n_out: int = 1,
) -> ResidualTuning:
    r"""Branch scale, initialisation, learning rates and largest step for a residual network of dense blocks.

    Parameters
    ----------
    activation
        A name, an `Activation`, or any elementwise function.
    blocks, width
        Number of residual blocks, one dense layer in each, and channels of the stream.
    x
        Training inputs (points, features); without them inputs of mean square one, with `n_in` features.
    norm
        "none": $z+\beta(b+W\sigma(z))$. "pre": $z+\beta(b+W\sigma(\mathrm{LN}z))$ and a norm before the
        readout. "post": $\mathrm{LN}(z+\beta(b+W\sigma(z)))$.
    branch_scale
        Your own $\beta$ instead of $1/\sqrt{\mathrm{blocks}}$.
    readout_scale
        Factor of the readout's first weights. Outputs of a random network are noise that training removes at
        the training points only; a readout of scale 0.1 starts with a tenth of it, and `eta_max` follows.
    n_in, n_out
        Numbers of inputs (when there is no `x`) and outputs.

    Examples
    --------
    >>> import finitewidth as fw
    >>> advice = fw.tune_residual("gelu", blocks=64, width=128, norm="pre")
    >>> advice.branch_scale, round(advice.C_b / advice.C_W, 4)
    (0.125, 0.0306)
    """
    activation = as_activation(activation)
    for name, value in (("blocks", blocks), ("width", width), ("n_out", n_out)):
        check_whole(name, value)
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, got {norm!r}.")
    if branch_scale is not None:
        check_positive("branch_scale", branch_scale)
    check_positive("readout_scale", readout_scale)
    beta = blocks**-0.5 if branch_scale is None else float(branch_scale)
    net = _with_readout(_network(activation, blocks, width, norm, beta, n_out), float(readout_scale))
    inputs = jnp.ones((1, 1)) if x is None else as_inputs("x", x, net).astype(float)
    n_in = int(n_in or width) if x is None else inputs.shape[1]
    branch = _branch(net)
    C_b, C_W = float(branch.hyperparameters.C_b), float(branch.hyperparameters.C_W)
    square = float(jnp.mean(inputs**2))
    signals = {"recommended": block_signals(activation, norm, blocks, beta, (C_b, C_W), square)}
    defaults = {"PyTorch nn.Linear": (1 / (3 * width), 1 / 3), "Flax nn.Dense": (0.0, 1.0)}
    for name, variances in defaults.items():
        entering = variances[1] * square + (1 / (3 * n_in) if variances[0] else 0.0)
        signals[name] = block_signals(activation, norm, blocks, 1.0, variances, entering)
    depth = None
    if norm == "none" and width > 1:
        build = lambda number, scale: _with_readout(
            _network(activation, number, width, norm, scale, n_out), float(readout_scale)
        )
        depth = residual_depth(build, blocks, branch_scale, width, square)
    return ResidualTuning(
        net=net, activation=activation, blocks=blocks, width=width, n_in=n_in, n_out=n_out, norm=norm,
        branch_scale=beta, C_b=C_b, C_W=C_W,
        reasons=_reasons(activation, norm, blocks, beta, branch_scale is not None, C_b, C_W),
        eta_max=2 / largest_ntk_eigenvalue(net, inputs), points=len(inputs), depth=depth,
        verdict=_UNKNOWN if depth is None else depth.verdict, signals=signals,
    )  # fmt: skip


def block_signals(
    activation: Activation,
    norm: Norm,
    blocks: int,
    beta: float,
    variances: tuple[float, float],
    square: float,
) -> BlockSignals:
    """Variance of the stream at every block, and squared gradients; `square` is the variance at the start."""
    C_b, C_W = variances
    at_one = layer_response(activation, jnp.ones(()))
    K, chi = [square], []
    for _ in range(blocks):
        response = at_one if norm == "pre" else layer_response(activation, jnp.asarray(K[-1]))
        grown = K[-1] + beta**2 * (C_b + C_W * float(response.g))
        slope = beta**2 * C_W * float(response.h)
        if norm == "pre":
            chi.append(1 + slope / K[-1])
        else:
            chi.append((1 + slope) / (grown if norm == "post" else 1.0))
        K.append(1.0 if norm == "post" else grown)
    top = 1 / K[-1] if norm == "pre" else 1.0
    backwards = np.cumprod([top, *chi[::-1]])[::-1]
    return BlockSignals(np.array(K), backwards)


def _network(
    activation: Activation, blocks: int, width: int, norm: Norm, beta: float, n_out: int
) -> Sequential:
    if norm != "post":
        return ResidualMLP(
            blocks, width, activation, beta=beta, norm=LayerNorm() if norm == "pre" else None, n_out=n_out
        )
    # Under a norm the bias that keeps differences is the same wherever the norm stands.
    normed = _branch(ResidualMLP(1, width, activation, norm=LayerNorm())).hyperparameters
    C_b, C_W = float(normed.C_b), float(normed.C_W)
    block = Sequential(Residual(Activate(activation), Dense(width, C_b, C_W), beta=beta), LayerNorm())
    return Sequential(
        Dense(width, 0.0, 1.0), Repeat(block, blocks), Activate(activation), Dense(n_out, 0.0, C_W)
    )


def _with_readout(net: Sequential, scale: float) -> Sequential:
    """The same network with the first weights of its readout multiplied."""
    *below, last = net.layers
    assert isinstance(last, Dense)
    numbers = last.hyperparameters
    readout = Dense(last.width, numbers.C_b, scale**2 * numbers.C_W, numbers.lambda_b, numbers.lambda_W)
    return Sequential(*below, readout, parametrisation=net.parametrisation)


def _branch(net: Sequential) -> Dense:
    """The dense layer of a block."""
    repeat = net.layers[1]
    assert isinstance(repeat, Repeat)
    block = repeat.layer.layers[0] if isinstance(repeat.layer, Sequential) else repeat.layer
    assert isinstance(block, Residual)
    dense = block.body[-1]
    assert isinstance(dense, Dense)
    return dense


def _reasons(
    activation: Activation, norm: Norm, blocks: int, beta: float, own: bool, C_b: float, C_W: float
) -> dict[str, str]:
    response = layer_response(activation, jnp.ones(()))
    g, h = float(response.g), float(response.h)
    if norm == "none":
        with_one = f"with branches of scale 1 they would grow by {(1 + C_W * h):.3g} in every block"
    elif norm == "pre":
        with_one = f"with scale 1 the stream grows to {1 + blocks * (C_b + C_W * g):.3g} times its variance"
    else:
        factor = (1 + C_W * h) / (1 + C_b + C_W * g)
        with_one = f"with scale 1 squared gradients change by {factor:.4g} in every block"
    initialisation = (
        "C_W as at the critical point, no bias: the skip carries the signal"
        if norm == "none"
        else "C_b = C_W (h - g) at variance one: differences of inputs grow as fast as the stream"
    )
    scale = (
        f"as given, {beta:.4g}" if own else f"1/sqrt({blocks}): signal, gradients and NTK stay of order one"
    )
    return {"branch scale": f"{scale}; {with_one}", "initialisation": initialisation}
