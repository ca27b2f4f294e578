r"""Lipschitz maps between Euclidean spaces extended to one more point (Kirszbraun), constructively.

The image y of a new point x must satisfy $|y-f_i|\le L|x-x_i|$ for all known images. Minimising
$\max_i\{|y-f_i|^2-L^2|x-x_i|^2\}$ is convex. Its dual is a quadratic over probabilities $\lambda$: maximise
$\sum_i\lambda_i(|f_i|^2-d_i^2)-|\sum_i\lambda_if_i|^2$, and $y=\sum_i\lambda_if_i$. By Kirszbraun's theorem
the optimum is not positive if the known map has the constant L.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.checks import check_positive

_SAME = 1e-10


class Extension(NamedTuple):
    """The image of a new point, and the largest |y - f_i| / |x - x_i|: at most L up to rounding."""

    image: Float[np.ndarray, " m"]
    constant: float


def extend(
    known: Float[np.ndarray, "k d"],
    images: Float[np.ndarray, "k m"],
    point: Float[np.ndarray, " d"],
    constant: float | int = 1.0,
    tolerance: float = 1e-9,
) -> Extension:
    """Where a map with a Lipschitz constant may send a new point.

    Parameters
    ----------
    known, images
        Points and where the map sends them.
    point
        The new one.
    constant
        The Lipschitz constant L that the map is to keep.
    tolerance
        How much of the largest squared distance the optimum may be missed by.
    """
    check_positive("constant", constant)
    distances = np.linalg.norm(np.asarray(known, float) - point, axis=1)
    found = image_within(images, constant * distances, tolerance)
    return Extension(found.image, constant * found.constant)


def image_within(
    images: Float[np.ndarray, "k m"], distances: Float[np.ndarray, " k"], tolerance: float = 1e-9
) -> Extension:
    """A point whose distances from known images are at most these, or exceed them by as little as can be.

    The constant is the largest ratio of a distance to what is allowed, so that the distances of the new point
    may be taken in any space. Where one exists, the first point found within all distances is returned.
    """
    images, distances = np.asarray(images, dtype=float), np.asarray(distances, dtype=float)
    # A new point that is a known one up to rounding.
    if distances.min() <= _SAME * distances.max():
        return Extension(images[np.argmin(distances)], 1.0)
    image = _smallest_excess(images, distances**2, tolerance)
    return Extension(image, float(np.max(np.linalg.norm(image - images, axis=1) / distances)))


def _smallest_excess(f: np.ndarray, d2: np.ndarray, tolerance: float) -> np.ndarray:
    """The dual by active sets: the best combination of some images, then the image that it exceeds most."""
    middle = f.mean(axis=0)
    f = f - middle
    gram = f @ f.T
    own = np.diag(gram)
    active, weights = [int(np.argmin(d2))], np.ones(1)
    scale = tolerance * float(d2.max())
    y = f[active[0]]
    for _ in range(20 * len(f)):
        best = _best_combination(gram[np.ix_(active, active)], (own - d2)[active])
        if best.min() < 0:
            # As far towards the best combination as all weights stay positive; what vanishes is dropped.
            falling = best < 0
            share = float(np.min(weights[falling] / (weights - best)[falling]))
            weights = weights + share * (best - weights)
            kept = ~(falling & (weights <= 1e-14))
            active = [i for i, stays in zip(active, kept, strict=True) if stays]
            weights = weights[kept] / weights[kept].sum()
            continue
        weights, y = best, best @ f[active]
        excess = own - 2 * f @ y + y @ y - d2
        worst = int(np.argmax(excess))
        # Nothing is exceeded, or the dual value, a lower bound of the largest excess, is reached.
        if excess[worst] <= 0 or excess[worst] - weights @ excess[active] <= scale or worst in active:
            break
        active.append(worst)
        weights = np.append(weights, 0.0)
    return middle + y


def _best_combination(gram: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Maximise g.w - w.gram.w over weights of sum one and any sign."""
    size = len(g)
    system = np.ones((size + 1, size + 1))
    system[:size, :size], system[size, size] = 2 * gram, 0.0
    return np.linalg.lstsq(system, np.append(g, 1.0), rcond=None)[0][:size]
