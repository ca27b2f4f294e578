r"""Parameters of a quadratic model to first order in $\epsilon$, from any start.

The model is $z_a=\phi_a\cdot\theta+\frac\epsilon2\theta^T\psi_a\theta$ with features
$\phi_a+\epsilon\psi_a\theta$, the loss half the sum of squared errors, and $A=\sum_a\phi_a\phi_a^T$. The
linear model's flow is $\theta^F(t)=\theta_*+e^{-tA}(\theta_0-\theta_*)$.
"""

import math

import numpy as np
from jaxtyping import Float

# Residuals and eigenvalues below this part of the largest are zero.
_ZERO = 1e-9

Features = Float[np.ndarray, "train features"]
MetaFeatures = Float[np.ndarray, "train features features"]
Parameters = Float[np.ndarray, " features"]
Labels = Float[np.ndarray, " train"]


def stationary_point(phi: Features, psi: MetaFeatures, y: Labels) -> tuple[Parameters, Parameters]:
    r"""The minimiser of the linear model, and the coefficient of $\epsilon$ in the quadratic model's
    stationary point.

    $$A\theta^I=-\tfrac12\sum_a\phi_a\,\theta^F\psi_a\theta^F-\sum_a\psi_a\theta^F\,r_a,
    \qquad r_a=\phi_a\cdot\theta^F-y_a .$$

    Where A is singular the linear model must interpolate, and only the part in the span of the features is
    determined: it is a linear fit to the labels' change $-\frac12\theta^F\psi_a\theta^F$.
    """
    first = np.linalg.lstsq(phi, y, rcond=None)[0]
    r = phi @ first - y
    singular = np.linalg.matrix_rank(phi) < phi.shape[1]
    if singular and np.abs(r).max() > _ZERO * np.abs(y).max():
        raise ValueError(
            f"y is not interpolated (a residual of {np.abs(r).max():.2g} is left) and the features do not "
            "span all "
            f"{phi.shape[1]} parameters: the stationary point does not continue in epsilon."
        )
    bent = psi @ first
    source = -phi.T @ (bent @ first) / 2 - bent.T @ r
    return first, np.linalg.lstsq(phi.T @ phi, source, rcond=None)[0]


def feature_change(
    phi: Features,
    y: Labels,
    psi: Float[np.ndarray, "points features features"],
    start: Parameters,
    time: float,
) -> Float[np.ndarray, "points features"]:
    r"""The coefficient of $\epsilon$ in how far effective features have moved,
    $\psi(x)(1-e^{-tA})(\theta_*-\theta_0)$."""
    move = np.linalg.lstsq(phi, y - phi @ start, rcond=None)[0]
    values, vectors = np.linalg.eigh(phi.T @ phi)
    gone = np.ones_like(values) if math.isinf(time) else -np.expm1(-time * np.maximum(values, 0.0))
    return psi @ (vectors @ (gone * (vectors.T @ move)))


def perpendicular_drift(phi: Features, psi: MetaFeatures, y: Labels, start: Parameters) -> Parameters:
    r"""The coefficient of $\epsilon$ in how far parameters end up outside the span of the features.

    $$-\sum_aP_\perp\psi_a\Big[\theta_*\,\phi_a\cdot A^+d
    +\sum_{jk}\frac{v_j(v_j\cdot d)(v_k\cdot d)(v_k\cdot\phi_a)}{l_j+l_k}\Big],
    \qquad d=\theta_0-\theta_*,$$

    with the eigenpairs $(l_j,v_j)$ of A on the span. It depends on the path, not on the speed, and needs a
    linear model that interpolates; otherwise the drift never ends.
    """
    d = -np.linalg.lstsq(phi, y - phi @ start, rcond=None)[0]
    end = start - d
    left = np.abs(phi @ end - y).max()
    if left > _ZERO * np.abs(y).max():
        raise ValueError(
            f"y is not interpolated: a residual of {left:.2g} is left, and the drift does not end."
        )
    _, sizes, rows = np.linalg.svd(phi, full_matrices=False)
    kept = sizes > _ZERO * sizes[0]
    l, v = sizes[kept] ** 2, rows[kept]
    along = v @ d
    # Integrals over all time of the residual alone, and of the linear model's way times the residual.
    alone = phi @ (v.T @ (along / l))
    pairs = np.einsum("jk,k,ka->ja", along[:, None] / (l[:, None] + l), along, v @ phi.T)
    pull = np.einsum("aij,j,a->i", psi, end, alone) + np.einsum("aij,ja->i", psi, v.T @ pairs)
    return -(pull - v.T @ (v @ pull))
