r"""Products of gamma functions integrated along a line: Meijer's function G without poles above.

$$G(z)=\frac1{2\pi i}\int\prod_j\Gamma(b_j+t)^{m_j}\,z^{-t}\,dt,$$

the line to the right of every pole. On the real axis the logarithm of the integrand is convex and grows at
both ends, so it has one minimum $t_0$. Along $t_0+i\tau$ the modulus is largest at $\tau=0$: nothing cancels,
and the trapezoidal rule converges exponentially. All is done in logarithms, so sizes of thousands do no harm.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar
from scipy.special import digamma, gammaln, loggamma, polygamma

# The sum is refined until it moves by less, and ends where the integrand has fallen by e^-41.
_CHANGE, _FALLEN = 1e-12, 41.0
_MOST_HALVINGS = 12


def log_meijer(
    shifts: Float[np.ndarray, " gammas"], counts: Float[np.ndarray, " gammas"], log_z: float
) -> float:
    """Log of G at one positive argument; `counts` says how often each gamma function occurs."""
    centre = _saddle(shifts, counts, log_z)
    log_integrand = lambda t: counts @ loggamma(shifts[:, None] + t) - t * log_z
    top = float(log_integrand(np.array([centre + 0j]))[0].real)
    fallen = lambda tau: np.exp(log_integrand(centre + 1j * tau) - top).real
    width = 1 / np.sqrt(counts @ polygamma(1, shifts + centre))
    end = 8 * width
    while log_integrand(np.array([centre + 1j * end]))[0].real - top > -_FALLEN:
        end *= 1.5
    # Terms as large as these leave so much rounding, below which no refinement helps.
    change = max(_CHANGE, np.finfo(float).eps * float(counts @ np.abs(gammaln(shifts + centre))))
    step = width / 2
    total = 0.5 + fallen(np.arange(step, end, step)).sum()
    for _ in range(_MOST_HALVINGS):
        step /= 2
        finer = total + fallen(np.arange(step, end, 2 * step)).sum()
        # Half as wide a step: twice the sum is the same integral.
        settled = abs(finer / (2 * total) - 1) < change
        total = finer
        if settled:
            break
    return float(top + np.log(total * step / np.pi))


def _saddle(shifts: np.ndarray, counts: np.ndarray, log_z: float) -> float:
    """Where the integrand is smallest on the real axis right of every pole."""
    lowest = -shifts.min()
    slope = lambda log_distance: counts @ digamma(shifts + lowest + np.exp(log_distance)) - log_z
    low, high = -1.0, 1.0
    while slope(low) > 0:
        low -= 2 - low
    while slope(high) < 0:
        high += 2 + high
    found = root_scalar(slope, bracket=(low, high), method="brentq", xtol=1e-13, rtol=1e-14)
    return float(lowest + np.exp(found.root))
