"""`gpjax_kernel`: the prior of infinitely wide networks as a kernel of GPJax."""

from typing import TYPE_CHECKING, Literal

from finitewidth.architecture.layer import Layer
from finitewidth.statistics.wide.inputs import check_described

if TYPE_CHECKING:
    from gpjax.kernels import AbstractKernel


def gpjax_kernel(
    net: Layer, which: Literal["nngp", "ntk"] = "nngp", *, trainable: bool = True
) -> "AbstractKernel":
    """A kernel of GPJax with everything that GPJax does with kernels: inference, optimisation, sparsity.

    Parameters
    ----------
    net
        The network. Its kernels come in tiles, as from `kernels`.
    which
        "nngp", the covariance of random networks, or "ntk".
    trainable
        Whether GPJax may optimise the variances C_b and C_W; those that are zero stay zero.

    Examples
    --------
    >>> import finitewidth as fw
    >>> fw.gpjax_kernel(fw.MLP((64,), "relu"), "gp")
    Traceback (most recent call last):
        ...
    ValueError: which must be "nngp" or "ntk", got 'gp'.
    """
    check_described(net)
    if which not in ("nngp", "ntk"):
        raise ValueError(f'which must be "nngp" or "ntk", got {which!r}.')
    try:
        from finitewidth.estimators.gpjax_adapter import NetworkKernel
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] != "gpjax":
            raise
        raise ModuleNotFoundError("GPJax is not installed: pip install gpjax.", name="gpjax") from None
    return NetworkKernel(net, which, trainable)
