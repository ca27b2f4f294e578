r"""Where noise that depends on the place lets one coordinate stay.

Small steps with mean $-\eta L'(x)$ and noise of standard deviation $\eta s(x)$ have a stationary density

$$p(x)\propto\frac1{D(x)}\exp\left(-\int^x\frac{L'}D\right),\qquad D=\frac{\eta s^2}2,$$

because the noise of a step depends on the place before it (Itô). Noisy regions are left sooner: without a
loss the density is $1/D$.
"""

from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive

Line = Float[np.ndarray, " points"]
Along = Callable[[np.ndarray], np.ndarray | float]

# A transition is followed as far as this many standard deviations.
_REACH = 9.0


class LineDensity(eqx.Module):
    """A density on the middles of equal cells of a line or a circle."""

    points: Line
    values: Line

    @property
    def cell(self) -> float:
        """Width of a cell."""
        return float(self.points[1] - self.points[0])

    def probability(self, where: Bool[np.ndarray, " points"]) -> float:
        """Probability of some of the cells, such as `density.points < 0`."""
        return float(np.sum(self.values[where]) * self.cell)

    def mean(self, of: Float[np.ndarray, " points"]) -> float:
        """Mean of a quantity that is given at every point."""
        return float(of @ self.values * self.cell)


def ito_density(
    loss: Along, noise_std: Along, eta: float | int, low: float | int, high: float | int, cells: int = 2000
) -> LineDensity:
    """The stationary density of small noisy steps on a loss of one variable, between two reflecting ends.

    Parameters
    ----------
    loss, noise_std
        The loss and the standard deviation of its noisy gradient: NumPy functions of an array of places.
    eta
        The step.
    low, high, cells
        Ends of the line, and how many cells it is divided into.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.stochastic_gradients.theory import ito_density
    >>> p = ito_density(lambda x: 0 * x, lambda x: np.where(x < 0, 1.0, 2.0), 0.1, -1, 1)
    >>> round(p.probability(p.points < 0), 6)
    0.8
    """
    check_positive("eta", eta)
    points = _cells(low, high, cells)
    height, diffusion = _at(loss, points), eta * _at(noise_std, points) ** 2 / 2
    rises = np.diff(height) * (1 / diffusion[1:] + 1 / diffusion[:-1]) / 2
    log_density = -np.concatenate([[0.0], np.cumsum(rises)]) - np.log(diffusion)
    return _normalised(points, np.exp(log_density - log_density.max()))


def step_density(
    gradient: Along,
    noise_std: Along,
    eta: float | int,
    low: float | int,
    high: float | int,
    cells: int = 600,
    *,
    periodic: bool = False,
) -> LineDensity:
    r"""The stationary density of $x'=x-\eta\,(L'(x)+s(x)\,\xi)$ with Gaussian $\xi$, at a finite step.

    The density is the fixed point of the transition from cell to cell, so that no small step is assumed.

    Parameters
    ----------
    gradient, noise_std
        L' and s: NumPy functions of an array of places.
    eta
        The step.
    low, high, cells
        Ends of the line, so wide that no walker gets there, and how many cells it is divided into. A step of
        noise must be a few cells wide.
    periodic
        Whether the line is a circle, its ends joined.
    """
    check_positive("eta", eta)
    points = _cells(low, high, cells)
    cell, length = points[1] - points[0], float(high) - float(low)
    spread = eta * _at(noise_std, points)
    if spread.min() < 2 * cell:
        raise ValueError(
            f"eta s(x) = {spread.min():.3g} is below two cells of {cell:.3g}: take at least "
            f"{int(np.ceil(2 * length / spread.min()))} cells."
        )
    target = points - eta * _at(gradient, points)
    turns = range(-int(_REACH * spread.max() / length) - 1, int(_REACH * spread.max() / length) + 2)
    distance = points[:, None] - target
    images = [distance + k * length for k in turns] if periodic else [distance]
    moves = np.sum([np.exp(-((d / spread) ** 2) / 2) for d in images], axis=0)
    return _normalised(points, _fixed(moves / moves.sum(axis=0)))


def ring_walk(steps: AnyArray) -> Float[np.ndarray, " sites"]:
    """Where a walker on a ring stays, who goes left or right alike, as many sites as its place says.

    Parameters
    ----------
    steps
        At every site, how many sites a step goes.

    Returns
    -------
    array
        The probability of every site in the long run.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.stochastic_gradients.theory import ring_walk
    >>> float(ring_walk(np.repeat([1, 2], 20))[:20].sum().round(6)), round(40 / 51, 6)
    (0.784314, 0.784314)
    """
    far = np.asarray(steps)
    if far.ndim != 1 or far.dtype.kind not in "iu" or np.any(far < 1) or not far.size:
        raise ValueError("steps must be positive whole numbers, one for each site of the ring.")
    site = np.arange(far.size)
    moves = np.zeros((far.size, far.size))
    for sign in (1, -1):
        np.add.at(moves, ((site + sign * far) % far.size, site), 0.5)
    return _fixed(moves)


def two_step_share(sites: int) -> float:
    r"""Share of time in the half of a ring where steps go one site, when they go two in the other half.

    $N/(\frac54N+1)$ for N sites, divisible by four: 4/5 on a circle, where density is $1/\mathrm{step}^2$.
    """
    if not isinstance(sites, int | np.integer) or sites < 4 or sites % 4:
        raise ValueError(f"sites must be a multiple of 4, got {sites!r}.")
    return float(sites / (1.25 * sites + 1))


def _cells(low: float | int, high: float | int, cells: int) -> np.ndarray:
    if not low < high:
        raise ValueError(f"low must be below high, got {low!r} and {high!r}.")
    edges = np.linspace(float(low), float(high), cells + 1)
    return (edges[1:] + edges[:-1]) / 2


def _at(function: Along, points: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.asarray(function(points), float), points.shape)


def _fixed(moves: np.ndarray) -> np.ndarray:
    """The distribution that a matrix of transitions, columns adding to one, leaves as it is."""
    equations = moves - np.eye(len(moves))
    equations[-1] = 1.0
    return np.linalg.solve(equations, np.eye(len(moves))[-1])


def _normalised(points: np.ndarray, values: np.ndarray) -> LineDensity:
    values = np.maximum(values, 0.0)
    return LineDensity(points, values / (values.sum() * (points[1] - points[0])))
