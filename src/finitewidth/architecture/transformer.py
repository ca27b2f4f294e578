"""A transformer, put together."""

from finitewidth._base.arrays import Elementwise
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.attention import SelfAttention
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.layer import as_sizes
from finitewidth.architecture.normalisation import LayerNorm
from finitewidth.architecture.parametrisation import Parametrisation
from finitewidth.architecture.pooling import GlobalAveragePool
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential


def Transformer(
    blocks: int,
    width: int,
    heads: int = 1,
    activation: str | Activation | Elementwise = "gelu",
    *,
    head_width: int | None = None,
    inner_width: int | None = None,
    kind: str = "softmax",
    scaling: str = "linear",
    beta: float | None = None,
    n_out: int = 1,
    parametrisation: str | Parametrisation = "ntk",
) -> Sequential:
    r"""A pre-norm transformer over tokens, (tokens, channels): its outputs are read from the mean token.

    A block adds two branches to the stream, each behind a LayerNorm: self-attention, and two dense layers
    with an activation between them.

    Parameters
    ----------
    blocks, width
        Number of blocks, and channels of the stream.
    heads, head_width, kind, scaling
        Of the attention: see `SelfAttention`. The default, logits divided by the width of a head, has
        kernels in closed form; "sqrt", the usual scaling, works in real networks.
    activation
        A name, an `Activation`, or any elementwise function.
    inner_width
        Neurons of the dense branch; four times the width by default.
    beta
        Factor of the branches; by default $1/\sqrt{2\,\text{blocks}}$, one over the root of their number.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.Transformer(blocks=2, width=16, heads=4)
    >>> net.apply(net.init(jax.random.key(0), (5, 3)), jax.numpy.ones((2, 5, 3))).shape
    (2, 1)
    """
    (blocks,) = as_sizes("blocks", (blocks,))
    factor = (2 * blocks) ** -0.5 if beta is None else beta
    attention = SelfAttention(width, heads, head_width, kind, scaling)
    neurons = 4 * attention.width if inner_width is None else inner_width
    block = Sequential(
        Residual(LayerNorm(), attention, beta=factor),
        Residual(LayerNorm(), Dense(neurons), Activate(activation), Dense(width), beta=factor),
    )
    return Sequential(
        Dense(width, 0.0, 1.0),
        Repeat(block, blocks),
        LayerNorm(),
        GlobalAveragePool(),
        Dense(n_out, 0.0, 1.0),
        parametrisation=parametrisation,
    )
