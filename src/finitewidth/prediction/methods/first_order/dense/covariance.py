r"""The trained covariance to order 1/n from dense tensors.

A network with several outputs is one with a single output whose labels are pairs (output, point): the
Kronecker deltas of the neurons become entries of larger tensors. In these labels a trained output is
$u + c/\sqrt n + \dots$ with $u=\bar z(0)$ what training leaves of the start, and the correction has three
parts: the shift of the initial covariance seen through training, the square of the first-order effect of
kernel fluctuations, and the correlation of u with all sources that also shift the mean.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import added, einsum, known, library
from finitewidth.prediction.methods.first_order.source_weights import SourceWeights
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.corrections import Corrections


class OneOutput(NamedTuple):
    """Tensors of a single output, or of labels (output, point); n times the averages in the comments."""

    G1: AnyArray
    H1: AnyArray
    zzH: AnyArray  # E[z1 z2 DH34]
    HH: AnyArray  # E[DH12 DH34]
    dz: AnyArray  # E[dH012 z3]
    I: AnyArray  # E[d3z]
    J: AnyArray  # E[d2z d2z]


def dense_covariance(tensors: Corrections, modes: TrainingModes) -> Float[AnyArray, "test out test out"]:
    """Coefficient of 1/n_{L-1} in the covariance of all trained outputs at the test points."""
    out, test = modes.Y.shape[1], len(modes.K) - modes.train
    modes, whole = composite(tensors, modes)
    covariance = composite_covariance(whole, modes)
    rows = covariance[modes.train :, modes.train :].reshape(out, test, out, test)
    return rows.transpose(1, 0, 3, 2)


def composite_covariance(tensors: OneOutput, modes: TrainingModes) -> Float[AnyArray, "p p"]:
    """Coefficient of 1/n in the covariance at all points, for one output."""
    w = modes.weights()
    points = len(modes.K)
    bar = np.eye(points)
    bar = added(bar, np.s_[:, : modes.train], -modes.smoother(w))
    W = modes.Y @ modes.Y.T + modes.Kt
    own = bar @ tensors.G1 @ bar.T + kernel_noise(tensors, modes, w, W)
    with_sources = correlation(tensors, modes, w, W, bar)
    return own + with_sources + with_sources.T


def kernel_noise(tensors: OneOutput, modes: TrainingModes, w: SourceWeights, W: AnyArray) -> AnyArray:
    """E[z1 z1] of the outputs' first-order response z1 to kernel fluctuations; W as below."""
    U, train = modes.U, modes.train
    points = len(modes.K)
    direct = einsum("zk,DE->zDEk", w.h, np.eye(points))
    response = modes.delivered(direct)  # (D, E, k): to a kernel fluctuation at E, acting on mode k
    HH = einsum("DaEc,ak,cl->DkEl", tensors.HH[:, :train, :, :train], U, U, optimize=True)
    return einsum("XDk,DkEl,YEl,kl->XY", response, HH, response, W, optimize=True)


def correlation(
    tensors: OneOutput, modes: TrainingModes, w: SourceWeights, W: AnyArray, bar: AnyArray
) -> AnyArray:
    """E[u_g c_D], summed over all sources; W is the second moment of the initial residuals."""
    U, tr = modes.U, slice(modes.train)
    Ku = bar @ modes.K[:, tr] @ U
    HH, dz, I, J = tensors.HH, tensors.dz, tensors.I, tensors.J
    e = lambda subscripts, *operands: einsum(subscripts, *operands, optimize=True)

    source = -e("Da,ak,zk,gk->zDg", tensors.H1[:, tr], U, w.h, Ku)
    source = source - e("gG,GbDa,ak,bk,zk->zDg", bar, tensors.zzH[:, tr, :, tr], U, U, w.h)
    source = source + e("Dabc,ak,bk,cl,zkl,gl->zDg", HH[:, tr, tr, tr], U, U, U, w.hh, Ku)

    for tensor, order, weight in ((dz[:, tr, tr], "Dab", w.dH_Dab), (dz[tr, :, tr], "aDb", w.dH_aDb)):
        with_u = e(f"{order}G,gG,ak,bl->Dklg", tensor, bar, U, U)
        source = source + e("Dklg,kl,zkl->zDg", with_u, W, weight)
        with_z = e(f"{order}e,em,ak,bl->Dklm", tensor[..., tr], U, U, U)
        source = source + e("Dklk,gl,zkl->zDg", with_z, Ku, weight)
        source = source + e("Dkll,gk,zkl->zDg", with_z, Ku, weight)

    for (block, order), weight in w.second_change.items():
        tensor = I if block == "I" else J
        restricted = tensor[tuple(slice(None) if o == "D" else tr for o in order)]
        rotated = e(f"{order},ak,bl,cm->Dklm", restricted, U, U, U)
        for first, rest in (("gk", "lm"), ("gl", "km"), ("gm", "kl")):
            source = source - e(f"Dklm,{first},{rest},zklm->zDg", rotated, Ku, W, weight)
    return modes.delivered(source).T


def composite(tensors: Corrections, modes: TrainingModes) -> tuple[TrainingModes, OneOutput]:
    """The same problem in labels (output, point), the training labels first, as if it had one output."""
    out, points = modes.Y.shape[1], len(modes.K)
    t = {
        name: known(getattr(tensors, name))
        for name in ["G1", "H1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
    }
    order = np.argsort(np.tile(np.arange(points) >= modes.train, out), kind="stable")
    one = np.eye(out)

    def matrix(m: AnyArray) -> AnyArray:
        return library(m).kron(one, m)[np.ix_(order, order)]

    def four(*parts: tuple[str, AnyArray]) -> AnyArray:
        """Sum of tensors that pair the outputs of their first two and of their last two labels."""
        total = np.zeros((out, points) * 4)
        for storage, tensor in parts:
            places = [int(label) - 1 for label in storage]
            outputs, samples = (["ijkl"[n] for n in places], ["abcd"[n] for n in places])
            pairs = f"{''.join(outputs[:2])},{''.join(outputs[2:])},{''.join(samples)}"
            total = added(total, ..., einsum(f"{pairs}->iajbkcld", one, one, tensor))
        return total.reshape((out * points,) * 4)[np.ix_(order, order, order, order)]

    whole = OneOutput(
        G1=matrix(t["G1"]),
        H1=matrix(t["H1"]),
        zzH=four(("1234", t["D"]), ("1324", t["F"]), ("1423", t["F"])),
        HH=four(("1234", t["A"]), ("1324", t["B"]), ("1423", t["B"])),
        # P pairs the labels 0 with 3 and 1 with 2, and is stored in the order 0, 1, 2, 3.
        dz=four(("1423", t["P"].transpose(0, 3, 1, 2)), ("1234", t["Q"]), ("1324", t["Q"])),
        I=four(("1234", t["R"]), ("1342", t["R"]), ("1423", t["R"])),
        J=four(("1234", t["S"]), ("1324", t["T"]), ("1423", t["U"])),
    )
    grown = TrainingModes(
        library(modes.t).tile(modes.t, out),
        library(modes.U).kron(one, modes.U),
        modes.Y.T.reshape(-1, 1),
        matrix(modes.K),
        matrix(modes.Theta),
        modes.algorithm,
        modes.ridge,
    )
    return grown, whole
