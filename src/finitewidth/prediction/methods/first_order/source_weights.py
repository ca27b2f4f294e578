r"""Weights of every arrangement of the tensors in the sources that move the trained outputs.

A source at the label D is a tensor whose other labels a, b, c are contracted with residuals of the start,
$y-z(0)$, each in its mode, and a weight says how much of them training has spent on that arrangement:

$$\Delta H_{Da},\quad dH_{Dab},\ dH_{aDb},\quad
  I_{Dabc},\ I_{aDbc},\ J_{Dbac},\ J_{abDc},\ J_{Dabc},\ J_{aDbc}.$$
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import holds_tracer, known, library, refuse_traced
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.methods.first_order.projector_weights import (
    ARRANGEMENTS,
    FIRST_CHANGE,
    SECOND_CHANGE,
    ProjectorWeights,
    projector_weights,
)
from finitewidth.prediction.methods.first_order.stopped_weights import stopped_weights


class SourceWeights(NamedTuple):
    """The weights, with the axis of starts as in `ProjectorWeights`.

    `hh` is the weight of two kernels in a row. The last two arrangements are J_Dbac with other names for its
    labels: a path may spread the weight over all three, or put it all on the first.
    """

    h: Float[AnyArray, "start k"]
    hh: Float[AnyArray, "start k k"]
    dH_Dab: Float[AnyArray, "start k k"]
    dH_aDb: Float[AnyArray, "start k k"]
    I_Dabc: Float[AnyArray, "start k k k"]
    I_aDbc: Float[AnyArray, "start k k k"]
    J_Dbac: Float[AnyArray, "start k k k"]
    J_abDc: Float[AnyArray, "start k k k"]
    J_Dabc: Float[AnyArray, "start k k k"] | None = None
    J_aDbc: Float[AnyArray, "start k k k"] | None = None

    @property
    def second_change(self) -> dict[tuple[str, str], Float[AnyArray, "start k k k"]]:
        """Weights of the ddNTK by block, I or J, and order of its labels."""
        named = {name: w for name, w in self._asdict().items() if name[0] in "IJ" and w is not None}
        return {(name[0], name[2:]): weight for name, weight in named.items()}


def source_weights(
    t: Float[AnyArray, " k"], algorithm: SpectralAlgorithm, ridge: float | Array = 0.0
) -> SourceWeights:
    """All weights for eigenvalues t, the ridge included; the algorithm's choices must be made."""
    t = known(t).astype(float)
    if not holds_tracer(ridge) and ridge == 0:
        return _along_a_path(projector_weights(t, algorithm))
    if algorithm.converged:
        return _held_to_the_start(t)
    refuse_traced("order=1 with a ridge and training that stops", t, ridge, algorithm)
    return SourceWeights(*stopped_weights(np.asarray(t), float(ridge), algorithm.clock()))


def _along_a_path(w: ProjectorWeights) -> SourceWeights:
    """The sum of all chains with which an arrangement enters; those of the ddNTK have legs z(0) - y."""

    def entering(table: dict[str, tuple[int, ...]], i: int) -> AnyArray:
        parts = [counts[i] * getattr(w, name) for name, counts in table.items()]
        numpy = library(*parts)
        return numpy.sum(numpy.stack(parts), axis=0)

    on_pairs = [entering(FIRST_CHANGE, i) for i in (0, 1)]
    on_triples = {name: -entering(SECOND_CHANGE, i) for i, name in enumerate(ARRANGEMENTS)}
    return SourceWeights(w.h, w.hh, *on_pairs, **on_triples)


def _held_to_the_start(t: Float[AnyArray, " k"]) -> SourceWeights:
    r"""The end of training with a ridge, a stationary point.

    There $\theta-\theta(0)=\lambda\sum_a\epsilon_a\nabla z_a$ with the gradients of the *end*: all of every
    residual is spent on the final features, whatever the path to them, and no weight depends on the step.
    """
    one = 1 / t
    two = one[:, None] * one
    three = two[:, :, None] * one
    weights = (one, two, two / 2, two, three / 6, three / 2, three, three)
    return SourceWeights(*(w[None] for w in weights))
