"""A kernel as a sum over eigenfunctions, and the norm that it gives to functions."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import quad

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import Params
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import power, scaled
from finitewidth.course.kernel_regression.theory.ridge import ridge_regression
from finitewidth.statistics.wide.kernels import kernels
from finitewidth.statistics.wide.mercer_decomposition import mercer

_SOURCE = orf_543("10/31")


def _midpoints(points: int) -> Float[np.ndarray, " n"]:
    return (np.arange(points) + 0.5) / points


@dataclass(frozen=True)
class Spectra:
    """min(x, y) on a grid, and networks on points around a circle."""

    grid: int
    draws: int
    modes: int = 6
    width: int = 16
    circle: int = 32
    waves: int = 8

    @property
    def network(self) -> Layer:
        """One hidden ReLU layer: its second moments are those of infinite width at any width."""
        return equal_layers(self.width, 1, "relu", 0.2, 2.0)

    @property
    def angles(self) -> Float[np.ndarray, " n"]:
        """Equally spaced directions."""
        return 2 * np.pi * np.arange(self.circle) / self.circle

    @property
    def inputs(self) -> Float[np.ndarray, "n 2"]:
        """The points on the circle."""
        return np.stack([np.cos(self.angles), np.sin(self.angles)], axis=1)

    @property
    def harmonics(self) -> Float[np.ndarray, "n waves"]:
        """1, sqrt(2) cos t, sqrt(2) cos 2t, ...: of mean square one."""
        waves = np.cos(np.outer(self.angles, np.arange(self.waves)))
        return waves * np.sqrt(np.where(np.arange(self.waves) > 0, 2.0, 1.0))

    def theory(self) -> Prediction:
        x = _midpoints(self.grid)
        brownian = mercer(np.minimum.outer(x, x), modes=self.modes)
        signs = np.sign(brownian.eigenfunctions[0])
        circle = mercer(kernels(self.network, self.inputs).nngp)
        return {
            "eigenvalues": np.asarray(brownian.eigenvalues),
            "eigenfunctions": np.asarray(brownian.eigenfunctions * signs),
            # An eigenfunction of mean square one has the squared norm 1 / eigenvalue.
            "power": 1 / np.asarray(circle.norm_squared(self.harmonics)),
        }

    def measure(self, key) -> Measurement:
        frequency = (np.arange(self.modes) + 0.5) * np.pi
        z = over_networks(self.network, self.inputs, key, self.draws, _outputs)
        return {
            "eigenvalues": exact(frequency**-2),
            "eigenfunctions": exact(np.sqrt(2) * np.sin(np.outer(_midpoints(self.grid), frequency))),
            "power": sample_mean((z @ self.harmonics / self.circle) ** 2),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        value, function = measured["eigenvalues"].value, measured["eigenfunctions"].value
        return [
            relative_error("eigenvalues of min(x, y)", predicted["eigenvalues"], value, 1e-4),
            absolute_error("eigenfunctions of min(x, y)", predicted["eigenfunctions"], function, 1e-4),
            z_score("power of random networks by wave number", predicted["power"], measured["power"]),
        ]


def _outputs(net: Layer, params: Params, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return net.apply(params, x)[:, 0]


_FUNCTIONS = {
    "x^2/2": (lambda x: x**2 / 2, lambda x: x),
    "sin 3x": (lambda x: np.sin(3 * x), lambda x: 3 * np.cos(3 * x)),
    "x(1-x)": (lambda x: x * (1 - x), lambda x: 1 - 2 * x),
    "sqrt(1+x)-1": (lambda x: np.sqrt(1 + x) - 1, lambda x: 0.5 / np.sqrt(1 + x)),
}


@dataclass(frozen=True)
class Brownian(RandomProblem):
    """The kernel min(x, y) on [0, 1], whose norm is the energy of a string, and random knots."""

    grid: int
    knots: int = 7

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Points and values through which a function has to pass."""
        rng = self.rng()
        return np.sort(rng.uniform(size=self.knots)), rng.normal(size=self.knots)

    def theory(self) -> Prediction:
        x = _midpoints(self.grid)
        K = np.minimum.outer(x, x)
        parts = mercer(K)
        values = np.stack([f(x) for f, _ in _FUNCTIONS.values()], axis=1)
        some = slice(None, None, self.grid // 10)
        inner = [parts.inner(values, np.tile(K[:, [i]], len(_FUNCTIONS))) for i in range(self.grid)[some]]
        at, through = self.data
        fit = ridge_regression(np.minimum.outer(at, at), through[:, None])
        return {
            "norm": np.asarray(parts.norm_squared(values)),
            "values": np.array(inner).T,
            "norms of kernels": np.asarray(parts.norm_squared(K[:, some])),
            "least norm": fit.norm_squared[0],
            "interpolator": fit.predict(np.minimum.outer(x, at))[:, 0],
        }

    def measure(self, key) -> Measurement:
        x = _midpoints(self.grid)
        points = x[:: self.grid // 10]
        energies = [quad(lambda t, slope=slope: slope(t) ** 2, 0, 1)[0] for _, slope in _FUNCTIONS.values()]
        # The string of least energy through the knots is straight between them and level beyond the last.
        at, through = (np.concatenate([[0.0], a]) for a in self.data)
        return {
            "norm": exact(np.array(energies)),
            "values": exact(np.stack([f(points) for f, _ in _FUNCTIONS.values()])),
            "norms of kernels": exact(points),
            "least norm": exact(np.sum(np.diff(through) ** 2 / np.diff(at))),
            "interpolator": exact(np.interp(x, at, through)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # The sum over modes of a function that does not end level falls short by one over their number.
        # Knots that are close to each other make the kernel between them ill-conditioned.
        at, through = self.data
        rounding = self.knots * np.finfo(float).eps * float(np.linalg.cond(np.minimum.outer(at, at)))
        furthest = float(np.abs(through).max())
        return [
            relative_error("squared norm", predicted["norm"], measured["norm"], 2 / self.grid),
            absolute_error("product with the kernel at x", predicted["values"], measured["values"], 1e-8),
            relative_error(
                "squared norm of the kernel at x",
                predicted["norms of kernels"],
                measured["norms of kernels"],
                1e-8,
            ),
            relative_error("least squared norm", predicted["least norm"], measured["least norm"], rounding),
            absolute_error(
                "its function", predicted["interpolator"], measured["interpolator"], rounding * furthest
            ),
        ]


def _ignoring_boundary(setting: Spectra, value: np.ndarray) -> np.ndarray:
    """Sines that vanish at both ends: eigenvalues 1/(j pi)^2."""
    return 1 / ((np.arange(setting.modes) + 1) * np.pi) ** 2


def _image_of_the_operator(setting: Brownian, value: np.ndarray) -> np.ndarray:
    """Coefficients over squared eigenvalues: the norm of the image of T, not of its square root."""
    x, frequency = _midpoints(setting.grid), (np.arange(setting.grid // 2) + 0.5) * np.pi
    c = np.sqrt(2) * np.sin(np.outer(frequency, x)) @ (x**2 / 2) / setting.grid
    return np.append(np.sum(c**2 * frequency**4), value[1:])


_ON_GRID = Curves(lambda setting: _midpoints(setting.grid), "$x$", along=0)


CLAIMS = (
    Claim(
        id="mercer-feature-map",
        title="a kernel is a sum over eigenfunctions",
        statement="""A positive semidefinite kernel is the sum of lambda_j psi_j(x) psi_j(y) over the
        eigenfunctions of its integral operator; for min(x, y) on [0, 1] they are sines with lambda_j = 1/((j
        - 1/2)^2 pi^2). The outputs of random networks have the variance lambda_j along psi_j.""",
        source=f"{_SOURCE} (semidefinite is enough)",
        quick=Spectra(grid=600, draws=2000),
        full=Spectra(grid=2000, draws=100_000),
        figure=(_ON_GRID, Curves(lambda setting: np.arange(setting.waves), "waves around the circle")),
        wrong={"eigenvalues": _ignoring_boundary, "eigenfunctions": scaled(1.01), "power": scaled(1.2)},
    ),
    Claim(
        id="rkhs-norm-and-reproducing",
        title="the norm of a function in the space of a kernel",
        statement="""The squared norm of f is the sum of its squared coefficients over the eigenvalues; f(x)
        is its product with K(x, .), whose squared norm is K(x, x). For min(x, y) the squared norm is the
        integral of f'^2, and kernel regression joins the data by straight lines.""",
        source=f"{_SOURCE} (the space is the image of the operator's square root)",
        quick=Brownian(grid=800),
        full=Brownian(grid=2000),
        figure=_ON_GRID,
        wrong={
            "norm": _image_of_the_operator,
            "values": scaled(1 + 1e-6),
            "norms of kernels": power(0.5),
            "least norm": scaled(1 + 1e-6),
            "interpolator": scaled(1 + 1e-6),
        },
    ),
)
