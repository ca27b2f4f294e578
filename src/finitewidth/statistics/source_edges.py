r"""How the layers above pass on what one neuron of a hidden layer does.

A correction of order 1/n begins at a hidden layer, as an average over a single neuron z of that layer of
products $\sigma_1,\sigma'_1,\dots$ at the points, and entries of that layer's $\Theta$. The layers above
multiply pairs of labels by averages of their own neurons, so they act on matrices over pairs of points,
the *edges*. With the edges of one hidden layer the output tensors are averages over its neuron:

$$A_{(12)(34)}=\langle\delta\Theta_{12}\,\delta\Theta_{34}\rangle,\quad
D_{(12)(34)}=\langle\delta K_{12}\,\delta\Theta_{34}\rangle,\quad
B_{1324}=\langle\sigma'_1\sigma'_3b_{13}\,\sigma'_2\sigma'_4b_{24}\rangle\Theta_{12}\Theta_{34},\quad
Q_{0123}=\langle\Psi_{01}\Lambda_{32}\rangle\Theta_{02},\dots$$

    dK(1,2)     = s1 s2 KE + s1^2 KA + s2^2 KA^T - K_mean
    dTheta(1,2) = s1 s2 TE + s'1 s'2 TP + s1^2 TA + s2^2 TA^T - mean
    L(1,3)      = s1 s'3 E + (s s')3 Ea
    Psi(0,1)    = s'0 s1 Pa + s''0 s'1 Pb + (s s')0 Pc
    Phi(0,3)    = s''0 s3 Fa + (s'' s)0 Fb + (s' s')0 Fc
    Pi(0,1)     = s''0 s1 Ra + s'''0 s'1 Rb + (s' s')0 Rc + (s'' s)0 Rd
    Sigma(1,2)  = s'1 s'2 Sa + s''1 s''2 Sb
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from finitewidth.statistics.hidden_layers import HiddenLayer, LayerKernels

Matrix = Float[np.ndarray | Array, "p p"]


class Edges(NamedTuple):
    """Matrices that carry the factors of one neuron to the outputs.

    `mean` and `K_mean` are those of the sampled dTheta and dK.
    """

    KE: Matrix
    KA: Matrix
    K_mean: Matrix
    TE: Matrix
    TP: Matrix
    TA: Matrix
    mean: Matrix
    E: Matrix
    Ea: Matrix
    Pa: Matrix
    Pb: Matrix
    Pc: Matrix
    b: Matrix
    Fa: Matrix
    Fb: Matrix
    Fc: Matrix
    Ra: Matrix
    Rb: Matrix
    Rc: Matrix
    Rd: Matrix
    Sa: Matrix
    Sb: Matrix


def source_edges(kernels: LayerKernels, layer: int) -> Edges:
    """Edges from hidden layer `layer` (from 0) to the outputs."""
    source = kernels.hidden[layer]
    C, lW = source.above.C_W, source.above.lambda_W
    full = lambda value: np.full_like(source.K, value)
    zero, carried = full(0.0), C * source.Theta
    state = {
        **{"KE": full(C), "KA": zero, "TE": full(lW), "TP": carried, "TA": zero},
        **{"E": full(C), "Ea": zero, "Pa": full(lW), "Pb": carried, "Pc": zero, "b": full(C)},
        **{"Fa": full(C), "Fb": zero, "Fc": zero, "Ra": full(lW), "Rb": carried, "Rc": zero, "Rd": zero},
        **{"Sa": full(lW), "Sb": carried},
    }
    for later in kernels.hidden[layer + 1 :]:
        state = _passed_on(state, later)
    average = source.averages
    one_point = average((0, 0), ())

    def mean(pairs: Matrix, single: Matrix) -> Matrix:
        return pairs * average.pair(0, 0) + single * one_point + (single * one_point).T

    return Edges(
        K_mean=mean(state["KE"], state["KA"]),
        mean=mean(state["TE"], state["TA"]) + state["TP"] * average.pair(1, 1),
        **state,
    )


def _passed_on(e: dict[str, Matrix], layer: HiddenLayer) -> dict[str, Matrix]:
    C, lW, M = layer.above.C_W, layer.above.lambda_W, layer.averages.pair
    m, M20 = C * M(1, 1), M(2, 0)
    chi = lW * M(1, 1) + C * layer.Theta * M(2, 2)
    rho = lW * M20 + C * layer.Theta * M(3, 1)
    dg = lambda edge: np.diag(edge)[:, None]
    moved_K, moved_L = dg(e["KE"] + 2 * e["KA"]), dg(e["E"] + e["Ea"])
    bent, straight = dg(e["Fc"] + e["b"]), dg(e["Fa"] + e["Fb"])
    return {
        "KE": m * e["KE"],
        "KA": m * e["KA"] + C / 2 * M20 * moved_K,
        "TE": m * e["TE"] + chi * e["KE"],
        "TP": m * e["TP"],
        "TA": m * e["TA"] + chi * e["KA"] + rho / 2 * moved_K,
        "E": m * e["E"],
        "Ea": m * e["Ea"] + C * M(0, 2) * moved_L.T,
        "Pa": m * e["Pa"] + chi * e["E"].T,
        "Pb": m * e["Pb"],
        "Pc": m * e["Pc"] + chi * e["Ea"].T + rho * moved_L,
        "b": m * e["b"],
        "Fa": m * e["Fa"],
        "Fb": m * e["Fb"] + C * M20 * straight,
        "Fc": m * e["Fc"] + C * M20 * bent,
        "Ra": m * e["Ra"] + chi * e["Fa"],
        "Rb": m * e["Rb"],
        "Rc": m * e["Rc"] + chi * e["Fc"] + rho * bent,
        "Rd": m * e["Rd"] + chi * e["Fb"] + rho * straight,
        "Sa": m * e["Sa"] + chi * e["b"],
        "Sb": m * e["Sb"],
    }
