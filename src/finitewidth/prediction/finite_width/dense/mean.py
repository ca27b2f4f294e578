r"""The trained mean to order 1/n from dense tensors.

Sources of order 1/n, of four origins, are added to the outputs in the course of training:

* the shift of the mean kernel, H1;
* fluctuations of the kernel, A and B;
* the first change of the kernel in training, the dNTK: P and Q;
* its second change, the ddNTK: R, S, T and U.

The weights are rotated from the eigenbasis to the points and contracted there; the tensors, which have four
indices, stay as they are. With several outputs the sum over output indices leaves factors of their number.
"""

import numpy as np
from jaxtyping import Float

from finitewidth.prediction.finite_width.correction import Origins
from finitewidth.prediction.finite_width.projector_weights import ProjectorWeights
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.statistics.corrections import Corrections


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


def _mean_kernel(tensors: Corrections, modes: TrainingModes, w: ProjectorWeights) -> np.ndarray:
    learnt = np.einsum("ak,zk,ki->zai", modes.U, w.h, modes.Y)
    return np.einsum("Da,zai->zDi", np.asarray(tensors.H1)[:, : modes.train], learnt)


def _fluctuations(tensors: Corrections, modes: TrainingModes, w: ProjectorWeights) -> np.ndarray:
    U, Y, n = modes.U, modes.Y, modes.Y.shape[1]
    g = np.einsum("zkl,ak,bk,cl,li->zabci", w.hh, U, U, U, Y, optimize=True)
    rows = _sources(modes, g)
    return -(rows("Dabc", tensors.A) + rows("Dbac", tensors.B) + n * rows("Dcab", tensors.B))


def _first_change(tensors: Corrections, modes: TrainingModes, w: ProjectorWeights) -> np.ndarray:
    U, Y, n = modes.U, modes.Y, modes.Y.shape[1]
    P, Q = tensors.P, tensors.Q

    def paired(weight: np.ndarray) -> tuple:
        """The initial output, third leg, is correlated with the residual of leg a, or of leg b."""
        first = -np.einsum("zkl,ak,ck,bl,li->zabci", weight, U, U, U, Y, optimize=True)
        second = -np.einsum("zkl,ak,ki,bl,cl->zabci", weight, U, Y, U, U, optimize=True)
        return _sources(modes, first), _sources(modes, second)

    with_a, with_b = paired(w.a2 + w.b2)
    source = with_a("Dabc", P) + with_a("Dabc", Q) + n * with_a("Dbac", Q)
    source = source + with_b("Dabc", P) + n * with_b("Dabc", Q) + with_b("Dbac", Q)
    with_a, with_b = paired(w.b2)
    source = source + n * with_a("aDbc", P) + with_a("aDbc", Q) + with_a("abDc", Q)
    return source + with_b("aDbc", P) + n * with_b("aDbc", Q) + with_b("abDc", Q)


# Where the free label D and the training labels a, b, c sit in each block of the ddNTK, for the three ways to
# pair their outputs: D with a, D with b, D with c.
_PAIRINGS = {
    "I_D": (("R", "Dabc"), ("R", "Dbca"), ("R", "Dcab")),
    "I_a": (("R", "aDbc"), ("R", "acDb"), ("R", "abcD")),
    "J_D": (("S", "Dabc"), ("T", "Dbac"), ("U", "Dcab")),
    "J_s": (("T", "Dabc"), ("S", "Dbac"), ("U", "Dcba")),
    "J_a": (("S", "aDbc"), ("U", "acDb"), ("T", "abDc")),
    "J_b": (("T", "aDbc"), ("U", "acbD"), ("S", "abDc")),
}
_BLOCKS = {
    "a3": (("I_D", 1),),
    "b3": (("I_D", 1), ("J_D", 1), ("J_s", 1)),
    "c3": (("I_D", 1), ("I_a", 1), ("J_D", 2)),
    "d3": (("I_D", 1), ("I_a", 1), ("J_D", 1), ("J_s", 1), ("J_a", 1), ("J_b", 1)),
}


def _second_change(tensors: Corrections, modes: TrainingModes, w: ProjectorWeights) -> np.ndarray:
    U = modes.U
    total = np.zeros(())
    for pairing, X in enumerate(_third_moments(modes)):
        for name, blocks in _BLOCKS.items():
            g = np.einsum("zklm,klmi,ak,bl,cm->zabci", getattr(w, name), X, U, U, U, optimize=True)
            rows = _sources(modes, g)
            for block, times in blocks:
                letter, order = _PAIRINGS[block][pairing]
                total = total + times * rows(order, getattr(tensors, letter))
    return total


def _third_moments(modes: TrainingModes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[e e e] of initial residuals, the output of leg k, l or m being i and the other two summed."""
    Y, Kt, n = modes.Y, modes.Kt, modes.Y.shape[1]
    W = Y @ Y.T + n * Kt
    kl = np.einsum("kl,mi->klmi", Kt, Y)
    km = np.einsum("km,li->klmi", Kt, Y)
    lm = np.einsum("lm,ki->klmi", Kt, Y)
    return (
        -(np.einsum("ki,lm->klmi", Y, W) + kl + km),
        -(np.einsum("li,km->klmi", Y, W) + kl + lm),
        -(np.einsum("mi,kl->klmi", Y, W) + km + lm),
    )


def _sources(modes: TrainingModes, g: Float[np.ndarray, "start train train train out"]):
    """Contract a tensor, its labels in the given order, with weights on the training labels a, b, c."""

    def contract(order: str, tensor) -> np.ndarray:
        restricted = np.asarray(tensor)[tuple(slice(None) if o == "D" else slice(modes.train) for o in order)]
        return np.einsum(f"{order},zabci->zDi", restricted, g, optimize=True)

    return contract
