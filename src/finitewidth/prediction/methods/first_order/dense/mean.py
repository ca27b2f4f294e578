r"""The trained mean to order 1/n from dense tensors.

Sources of order 1/n, of four origins, are added to the outputs in the course of training:

* the shift of the mean kernel, H1;
* fluctuations of the kernel, A and B;
* the first change of the kernel in training, the dNTK: P and Q;
* its second change, the ddNTK: R, S, T and U.

The weights are rotated from the eigenbasis to the points and contracted there; the tensors, which have four
indices, stay as they are. With several outputs the sum over output indices leaves factors of their number.
"""

from typing import Any

from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import einsum, known
from finitewidth.prediction.law.correction import Origins
from finitewidth.prediction.methods.first_order.source_weights import SourceWeights
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.corrections import Corrections


def dense_mean(tensors: Corrections, modes: TrainingModes) -> Origins:
    """Coefficient of 1/n_{L-1} in the trained mean at the test points, by origin."""
    weights = modes.weights()
    sources = (
        _mean_kernel(tensors, modes, weights),
        _fluctuations(tensors, modes, weights),
        _first_change(tensors, modes, weights),
        _second_change(tensors, modes, weights),
    )
    return Origins(*(modes.delivered(source)[modes.train :] for source in sources))


def _mean_kernel(tensors: Corrections, modes: TrainingModes, w: SourceWeights) -> AnyArray:
    learnt = einsum("ak,zk,ki->zai", modes.U, w.h, modes.Y)
    return einsum("Da,zai->zDi", known(tensors.H1)[:, : modes.train], learnt)


def _fluctuations(tensors: Corrections, modes: TrainingModes, w: SourceWeights) -> AnyArray:
    U, Y, n = modes.U, modes.Y, modes.Y.shape[1]
    g = einsum("zkl,ak,bk,cl,li->zabci", w.hh, U, U, U, Y, optimize=True)
    rows = _sources(modes, g)
    return -(rows("Dabc", tensors.A) + rows("Dbac", tensors.B) + n * rows("Dcab", tensors.B))


def _first_change(tensors: Corrections, modes: TrainingModes, w: SourceWeights) -> AnyArray:
    U, Y, n = modes.U, modes.Y, modes.Y.shape[1]
    P, Q = tensors.P, tensors.Q

    def paired(weight: AnyArray) -> tuple:
        """The initial output, third leg, is correlated with the residual of leg a, or of leg b."""
        first = -einsum("zkl,ak,ck,bl,li->zabci", weight, U, U, U, Y, optimize=True)
        second = -einsum("zkl,ak,ki,bl,cl->zabci", weight, U, Y, U, U, optimize=True)
        return _sources(modes, first), _sources(modes, second)

    with_a, with_b = paired(w.dH_Dab)
    source = with_a("Dabc", P) + with_a("Dabc", Q) + n * with_a("Dbac", Q)
    source = source + with_b("Dabc", P) + n * with_b("Dabc", Q) + with_b("Dbac", Q)
    with_a, with_b = paired(w.dH_aDb)
    source = source + n * with_a("aDbc", P) + with_a("aDbc", Q) + with_a("abDc", Q)
    return source + with_b("aDbc", P) + n * with_b("aDbc", Q) + with_b("abDc", Q)


# For every block of the ddNTK and every place of its free label D among the training labels a, b, c: the
# tensor, and the order of its labels, for the three ways to pair their outputs, D with a, D with b, D with c.
_PAIRINGS = {
    ("I", "Dabc"): (("R", "Dabc"), ("R", "Dbca"), ("R", "Dcab")),
    ("I", "aDbc"): (("R", "aDbc"), ("R", "acDb"), ("R", "abcD")),
    ("J", "Dabc"): (("S", "Dabc"), ("T", "Dbac"), ("U", "Dcab")),
    ("J", "Dbac"): (("T", "Dabc"), ("S", "Dbac"), ("U", "Dcba")),
    ("J", "aDbc"): (("S", "aDbc"), ("U", "acDb"), ("T", "abDc")),
    ("J", "abDc"): (("T", "aDbc"), ("U", "acbD"), ("S", "abDc")),
}


def _second_change(tensors: Corrections, modes: TrainingModes, w: SourceWeights) -> AnyArray:
    U = modes.U
    total: Any = 0.0
    for pairing, X in enumerate(_third_moments(modes)):
        for arrangement, weight in w.second_change.items():
            g = einsum("zklm,klmi,ak,bl,cm->zabci", weight, X, U, U, U, optimize=True)
            letter, order = _PAIRINGS[arrangement][pairing]
            total = total + _sources(modes, g)(order, getattr(tensors, letter))
    return total


def _third_moments(modes: TrainingModes) -> tuple[AnyArray, AnyArray, AnyArray]:
    """E[(y-z)(y-z)(y-z)] at the start, the output of leg k, l or m being i and the other two summed."""
    Y, Kt, n = modes.Y, modes.Kt, modes.Y.shape[1]
    W = Y @ Y.T + n * Kt
    kl = einsum("kl,mi->klmi", Kt, Y)
    km = einsum("km,li->klmi", Kt, Y)
    lm = einsum("lm,ki->klmi", Kt, Y)
    return (
        einsum("ki,lm->klmi", Y, W) + kl + km,
        einsum("li,km->klmi", Y, W) + kl + lm,
        einsum("mi,kl->klmi", Y, W) + km + lm,
    )


def _sources(modes: TrainingModes, g: Float[AnyArray, "start train train train out"]):
    """Contract a tensor, its labels in the given order, with weights on the training labels a, b, c."""

    def contract(order: str, tensor) -> AnyArray:
        restricted = known(tensor)[tuple(slice(None) if o == "D" else slice(modes.train) for o in order)]
        return einsum(f"{order},zabci->zDi", restricted, g, optimize=True)

    return contract
