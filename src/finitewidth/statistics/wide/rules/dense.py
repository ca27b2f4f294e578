r"""Dense: $K \mapsto C_b + C_W K$ and $\Theta \mapsto \lambda_b + \lambda_W K + C_W\Theta$."""

from typing import TypeVar

import numpy as np
from jaxtyping import Array, PyTree

from finitewidth.architecture.dense import Dense, Hyperparameters
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws

AnyArray = TypeVar("AnyArray", Array, np.ndarray, Array | np.ndarray)


def recursion(layer: Hyperparameters, K: AnyArray, Theta: AnyArray) -> tuple[AnyArray, AnyArray]:
    """NNGP kernel and NTK above one affine layer, from those of what enters it."""
    return layer.C_b + layer.C_W * K, layer.lambda_b + layer.lambda_W * K + layer.C_W * Theta


def affine(layer: Hyperparameters, below: Kernels) -> Kernels:
    """`recursion` for a pair of kernels."""
    return Kernels(*recursion(layer, *below))


@own.register
def _(layer: Dense, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return affine(cast(layer.hyperparameters, below), below), ()


@cross.register
def _(layer: Dense, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return affine(cast(layer.hyperparameters, below), below)


def cast(layer: Hyperparameters, below: Kernels) -> Hyperparameters:
    """In the precision of the moments."""
    return Hyperparameters(*(a.astype(below.nngp.dtype) for a in layer))
