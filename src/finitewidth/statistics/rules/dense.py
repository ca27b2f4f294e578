r"""Dense: $K \mapsto C_b + C_W K$ and $\Theta \mapsto \lambda_b + \lambda_W K + C_W\Theta$."""

from jaxtyping import PyTree

from finitewidth.architecture.dense import Dense, Hyperparameters
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.moments import Moments, PairLaws


def affine(layer: Hyperparameters, below: Moments) -> Moments:
    """Moments above one affine layer, from those of what enters it; the arrays may be of NumPy or of JAX."""
    K, Theta = below
    return Moments(
        layer.C_b + layer.C_W * K,
        layer.lambda_b + layer.lambda_W * K + layer.C_W * Theta,
    )


@own.register
def _(layer: Dense, below: Moments, laws: PairLaws) -> tuple[Moments, PyTree]:
    return affine(cast(layer.hyperparameters, below), below), ()


@cross.register
def _(layer: Dense, below: Moments, rows: PyTree, columns: PyTree, laws: PairLaws) -> Moments:
    return affine(cast(layer.hyperparameters, below), below)


def cast(layer: Hyperparameters, below: Moments) -> Hyperparameters:
    """In the precision of the moments."""
    return Hyperparameters(*(a.astype(below.nngp.dtype) for a in layer))
