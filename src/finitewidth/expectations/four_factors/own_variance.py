r"""Splitting a covariance into what its variables share and what each has to itself: $K=S+\mathrm{diag}(v)$.

Given the shared part the variables are independent, so only the axes of S remain to be integrated over
jointly. The largest v with S positive semi-definite leave S of low rank: two or three for four variables.
"""

import numpy as np
from jaxtyping import Float

_BARRIERS = np.geomspace(0.1, 1e-10, 18)
_NEWTON_STEPS = 2
# How far along the way to the border a step may go.
_SHORT_OF_BORDER = 0.95
_ROUNDING = 1e-13
# Covariances closer to singular than this keep everything shared.
_SINGULAR = 1e-9


def own_variances(K: Float[np.ndarray, "sets m m"]) -> Float[np.ndarray, "sets m"]:
    r"""v of every covariance, maximising $\sum_av_a/K_{aa}$ under $v\ge0$ and $K-\mathrm{diag}(v)\succeq0$.

    Newton's method on the logarithmic barrier of both constraints, whose weight goes to zero.
    """
    variance = np.einsum("saa->sa", K)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    rho = K / (scale[:, :, None] * scale[:, None, :])
    own = np.zeros_like(variance)
    least = np.linalg.eigvalsh(rho)[:, 0]
    regular = least > _SINGULAR
    own[regular] = _shares(rho[regular], least[regular])
    return own * scale**2


def _shares(rho: Float[np.ndarray, "sets m m"], least: Float[np.ndarray, " sets"]):
    v = np.repeat(least[:, None] / 2, rho.shape[1], axis=1)
    eye = np.eye(rho.shape[1])
    for barrier in _BARRIERS:
        for _ in range(_NEWTON_STEPS):
            inverse = np.linalg.inv(rho - v[:, :, None] * eye)
            slope = -1 + barrier * (np.einsum("saa->sa", inverse) - 1 / v)
            curvature = barrier * (inverse**2 + eye / v[:, :, None] ** 2)
            step = -np.linalg.solve(curvature, slope[..., None])[..., 0]
            spent = np.linalg.eigvals(inverse * step[:, None, :]).real.max(axis=1)
            spent = np.maximum(spent, (-step / v).max(axis=1))
            moved = v + step * np.minimum(1.0, _SHORT_OF_BORDER / np.maximum(spent, 1e-300))[:, None]
            # At the border rounding can spoil a step, which is then not made.
            inside = np.linalg.eigvalsh(rho - moved[:, :, None] * eye)[:, 0] > _ROUNDING
            v = np.where((inside & (moved > 0).all(axis=1))[:, None], moved, v)
    return v
