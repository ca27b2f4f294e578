r"""How tangent kernels of finite networks will move: mean differentials of the NTK at initialisation.

With $v=\lambda\nabla z$, the dNTK $dH_{012}=\partial^2z_0[v_1,v_2]$ and the two ddNTKs
$I_{0123}=\partial^3z_0[v_1,v_2,v_3]$ and
$J_{1234}=\partial^2z_1[\cdot,v_3]\,\lambda\,\partial^2z_2[\cdot,v_4]$ have the averages, n being the width
of the layer below,

$$\begin{aligned}
E[dH_{012}z_3]&=\tfrac1n(\delta_{03}\delta_{12}P_{0123}+\delta_{01}\delta_{23}Q_{0123}+\delta_{02}\delta_{13}Q_{0213}),\\
E[I_{0123}]&=\tfrac1n(\delta_{01}\delta_{23}R_{0123}+\delta_{02}\delta_{31}R_{0231}+\delta_{03}\delta_{12}R_{0312}),\\
E[J_{1234}]&=\tfrac1n(\delta_{12}\delta_{34}S_{1234}+\delta_{13}\delta_{24}T_{1324}+\delta_{14}\delta_{23}U_{1423}).
\end{aligned}$$

All of them vanish in the first layer, whose preactivations are linear in its parameters.
"""

from typing import NamedTuple

import numpy as np

from finitewidth._base.arrays import Matrix, Quadruple
from finitewidth._base.either import einsum
from finitewidth.architecture.dense import Hyperparameters
from finitewidth.statistics.first_order.fluctuations import Averages, Fluctuations


class Differentials(NamedTuple):
    """Differentials of one layer, labels stored in the order of the subscripts."""

    P: Quadruple
    Q: Quadruple
    R: Quadruple
    S: Quadruple
    T: Quadruple
    U: Quadruple


def first_layer(n: int) -> Differentials:
    """All zero."""
    return Differentials(*(np.zeros((n,) * 4) for _ in Differentials._fields))


def next_layer(
    below: Differentials, fluctuations: Fluctuations, averages: Averages, layer: Hyperparameters, ratio: float
) -> Differentials:
    r"""One affine layer on top of the neurons below.

    $\Omega_{12}=\lambda_W\sigma_1\sigma_2+C_W\Theta_{12}\sigma'_1\sigma'_2$ is what one neuron adds to the
    tangent kernel; `rho` and `chi` are its averages after two derivatives by the first label, or one by
    each.
    """
    M, four = averages
    C, lam, r = layer.C_W, layer.lambda_W, ratio
    P, Q, R, S, T, U = below
    Th, B, F = fluctuations.Theta, fluctuations.B, fluctuations.F
    m, m20 = M[1, 1], M[2, 0]
    rho = lam * M[2, 0] + C * Th * M[3, 1]
    chi = lam * M[1, 1] + C * Th * M[2, 2]
    E1100, E1111, E2110 = four[1, 1, 0, 0], four[1, 1, 1, 1], four[2, 1, 1, 0]
    E2211, E3111 = four[2, 2, 1, 1], four[3, 1, 1, 1]
    e = einsum

    # Labels 0, 1, 2, 3 are a, b, c, d.
    P_new = C**2 * e("ab,ac,abcd->abcd", Th, Th, E2110) + r * C**2 * m[None, :, :, None] * (
        e("ad,abca->abcd", m20, P) + e("ad,abcd->abcd", m, P) + e("ad,aabc->abcd", m20, B)
    )
    omega_slope_value = lam * e("acbd->abcd", E1100) + C * e("ab,abcd->abcd", Th, E2110)
    Q_new = C * e("ac,abcd->abcd", Th, omega_slope_value) + r * C * (
        C * e("ab,abcd->abcd", m, e("cd,abcc->abcd", m20, Q) + e("cd,abcd->abcd", m, Q))
        + _towards_anchor(m20, m, _towards_anchor(rho, chi, F), last=True)
    )
    rho_slopes = lam * e("acdb->abcd", E2110) + C * e("ab,abcd->abcd", Th, E3111)
    R_new = C * e("ac,ad,abcd->abcd", Th, Th, rho_slopes) + r * C * m * (
        C * e("ab,abcd->abcd", m, R)
        + e("ab,aacd->abcd", rho, B)
        + e("ab,acda->abcd", rho, P)
        + e("ab,acdb->abcd", chi, P)
    )

    # Labels 1, 2, 3, 4 are a, b, c, d.
    chi_slopes = lam * E1111 + C * e("ab,abcd->abcd", Th, E2211)
    S_new = C * e("ac,bd,abcd->abcd", Th, Th, chi_slopes) + r * C * m * (
        e("ab,abcd->abcd", chi, B) + C * e("ab,abcd->abcd", m, S)
    )
    omegas = (
        lam**2 * e("abcd->acbd", E1100)
        + lam * C * e("bd,badc->acbd", Th, E2110)
        + lam * C * e("ac,acbd->acbd", Th, E2110)
        + C**2 * e("ac,bd,abcd->acbd", Th, Th, E2211)
    )
    mixed = C * e("bd,acbd->acbd", m, e("ac,bdaa->acbd", rho, Q) + e("ac,bdac->acbd", chi, Q))
    T_new = e("ab,acbd->acbd", Th, omegas) + r * (
        _towards_anchor(rho, chi, _towards_anchor(rho, chi, F), last=True)
        + mixed
        + e("acbd->bdac", mixed)
        + C**2 * e("ac,bd,acbd->acbd", m, m, T)
    )
    U_new = (
        C**2 * e("ab,ac,bd,abcd->adbc", Th, Th, Th, E2211) + r * C**2 * e("ad,bc,adbc->adbc", m, m, U)
    )  # fmt: skip
    return Differentials(P_new, Q_new, R_new, S_new, T_new, U_new)


def _towards_anchor(by_first: Matrix, by_second: Matrix, X: Quadruple, last: bool = False) -> Quadruple:
    """Y_01.. = by_first_01 X_00.. + by_second_01 X_10.., on the first or on the last two labels."""
    if last:
        return _towards_anchor(by_first, by_second, X.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1)
    same = einsum("aacd->acd", X)[:, None]
    return by_first[:, :, None, None] * same + by_second[:, :, None, None] * X.transpose(1, 0, 2, 3)
