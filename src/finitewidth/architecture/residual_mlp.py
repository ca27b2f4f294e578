"""A residual network of dense layers, put together."""

from finitewidth._base.arrays import Elementwise
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.dense import Dense, Hyperparameter
from finitewidth.architecture.layer import as_sizes
from finitewidth.architecture.normalisation import Normalisation
from finitewidth.architecture.parametrisation import Parametrisation
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential


def ResidualMLP(
    blocks: int,
    width: int,
    activation: str | Activation | Elementwise = "relu",
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    norm: Normalisation | None = None,
    C_b: Hyperparameter | None = None,
    C_W: Hyperparameter | None = None,
    lambda_b: Hyperparameter = 1.0,
    lambda_W: Hyperparameter = 1.0,
    n_out: int = 1,
    parametrisation: str | Parametrisation = "ntk",
) -> Sequential:
    r"""A dense layer, `blocks` residual blocks $z\mapsto\alpha z+\beta\,(b+W\sigma(z))$, and a readout.

    Parameters
    ----------
    blocks, width
        Number of blocks, and channels of every one.
    activation
        A name, an `Activation`, or any elementwise function.
    alpha, beta
        Factors of stream and branch; beta is $1/\sqrt{\text{blocks}}$ unless given, which keeps signal,
        gradients and NTK of order one at every depth.
    norm
        A norm, such as `LayerNorm()`, at the beginning of every branch and before the readout (pre-norm);
        none by default, and then the readout is behind one more activation.
    C_b, C_W
        Variances in the branches; both `None`, the default: those that `residual_variances` recommends.
        The first layer and the readout have C_b = 0; C_W is 1 for the first layer and behind a norm, and
        that of the branches behind the last activation.
    lambda_b, lambda_W
        Learning rates of all biases and (rescaled) weights.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.ResidualMLP(blocks=16, width=64, activation="gelu")
    >>> float(net.layers[1].layer.beta)
    0.25
    >>> net.apply(net.init(jax.random.key(0), 3), jax.numpy.ones((5, 3))).shape
    (5, 1)
    """
    (blocks,) = as_sizes("blocks", (blocks,))
    neurons, rates = Activate(activation), (lambda_b, lambda_W)
    before = () if norm is None else (norm,)
    block = Residual(
        *before,
        neurons,
        Dense(width, C_b, C_W, *rates),
        alpha=alpha,
        beta=blocks**-0.5 if beta is None else beta,
    )
    last = block.body[-1]
    assert isinstance(last, Dense)
    top = (
        (neurons, Dense(n_out, 0.0, last.C_W, *rates))
        if norm is None
        else (norm, Dense(n_out, 0.0, 1.0, *rates))
    )
    first = Dense(width, 0.0, 1.0, *rates)
    return Sequential(first, Repeat(block, blocks), *top, parametrisation=parametrisation)
