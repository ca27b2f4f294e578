r"""How the variance and the learning rate of each parameter group scale with width.

A forward multiplier in front of a weight can be absorbed: $W = m\,w$ with steps on $w$ is the same
network as $W$ itself with the variance times $m^2$ and, for gradient steps, the rate times $m^2$ (for
steps whose size does not depend on the gradient's, times $m$). Every parametrisation is therefore
written here for the raw weight of $z = b + W s$: one variance and one rate per group.

With widths $n$ the rates of first, hidden and last weights are

| | variance of the last | gradient steps | entrywise steps (Adam, sign) |
|---|---|---|---|
| NTK | $1/n$ | $1/n_0,\ 1/n,\ 1/n$ | $n_0^{-1/2},\ n^{-1/2},\ n^{-1/2}$ |
| standard | $1/n$ | $1,\ 1,\ 1$ | $1,\ 1,\ 1$ |
| mean-field | $1/n^2$ | $n/n_0,\ 1,\ 1/n$ | $n_0^{-1/2},\ n^{-1/2},\ 1/n$ |
| maximal update | $1/n^2$ | $n,\ 1,\ 1/n$ | $1,\ 1/n,\ 1/n$ |
"""

import abc
import dataclasses
import math
from typing import Literal, NamedTuple, get_args

Geometry = Literal["gradient", "entrywise", "spectral"]
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)


class Place(NamedTuple):
    """Where an affine layer stands; `width` is that of the last hidden layer, 1 without any."""

    fan_in: int
    fan_out: int
    width: int
    first: bool
    last: bool


class Rates(NamedTuple):
    """Learning rates of one affine layer, before lambda and the global step."""

    weight: float
    bias: float


@dataclasses.dataclass(frozen=True)
class Parametrisation(abc.ABC):
    """Width scaling of an affine layer's variance and learning rates."""

    @property
    def name(self) -> str:
        """What networks call it."""
        return next((name for name, kind in _BY_NAME.items() if type(self) is kind), type(self).__name__)

    @abc.abstractmethod
    def weight_variance(self, place: Place) -> float:
        """Variance of a weight divided by C_W."""

    @abc.abstractmethod
    def rates(self, place: Place, geometry: Geometry) -> Rates:
        """Learning rates for steps of one geometry.

        `gradient`: steps proportional to the gradient. `entrywise`: every entry moves by about one
        unit (Adam, sign descent). `spectral`: every matrix moves by spectral norm one, every bias
        entrywise (Muon).
        """


@dataclasses.dataclass(frozen=True)
class NTK(Parametrisation):
    """The conventions of the theory: variance C_W/fan_in and rate lambda_W/fan_in."""

    def weight_variance(self, place: Place) -> float:
        return 1 / place.fan_in

    def rates(self, place: Place, geometry: Geometry) -> Rates:
        return Rates(1 / place.fan_in if geometry == "gradient" else place.fan_in**-0.5, 1.0)


@dataclasses.dataclass(frozen=True)
class Standard(Parametrisation):
    """Variance C_W/fan_in and one learning rate for everything."""

    def weight_variance(self, place: Place) -> float:
        return 1 / place.fan_in

    def rates(self, place: Place, geometry: Geometry) -> Rates:
        return Rates(1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class MeanField(Parametrisation):
    r"""The NTK multipliers with one more $n^{-1/2}$ on the outputs, and gradient steps times $n$.

    With one hidden layer this is $z = \frac1n\sum_j a_j\,\sigma(w_j\cdot x)$ trained with a step
    proportional to $n$.
    """

    def weight_variance(self, place: Place) -> float:
        return self._multiplier(place) ** 2

    def rates(self, place: Place, geometry: Geometry) -> Rates:
        if geometry != "gradient":
            return Rates(self._multiplier(place), 1.0)
        return Rates(place.width * self._multiplier(place) ** 2, 1.0 if place.last else float(place.width))

    def _multiplier(self, place: Place) -> float:
        return (place.fan_in * (place.width if place.last else 1)) ** -0.5


@dataclasses.dataclass(frozen=True)
class MaximalUpdate(Parametrisation):
    """The scaling (muP) in which every layer's features move by order one at any width.

    Widths count in units of `base_width`: a network of that width is the standard parametrisation,
    and its best learning rate is good for every other width.
    """

    base_width: int = 1

    def __post_init__(self):
        if self.base_width < 1:
            raise ValueError(f"base_width must be at least 1, got {self.base_width}.")

    @property
    def name(self) -> str:
        return f"mup:{self.base_width}"

    def weight_variance(self, place: Place) -> float:
        return 1 / (place.fan_in * (self._inputs(place) if place.last else 1))

    def rates(self, place: Place, geometry: Geometry) -> Rates:
        into, out = self._inputs(place), self._outputs(place)
        if geometry == "gradient":
            return Rates(out / into, out)
        if geometry == "spectral":
            return Rates(math.sqrt(out / into), 1.0)
        return Rates(1 / into, 1.0)

    def _inputs(self, place: Place) -> float:
        return 1.0 if place.first else place.fan_in / self.base_width

    def _outputs(self, place: Place) -> float:
        return 1.0 if place.last else place.fan_out / self.base_width


_BY_NAME: dict[str, type[Parametrisation]] = {
    "ntk": NTK,
    "standard": Standard,
    "mean-field": MeanField,
    "mup": MaximalUpdate,
}
PARAMETRISATIONS: tuple[str, ...] = tuple(_BY_NAME)


def as_parametrisation(parametrisation: str | Parametrisation) -> Parametrisation:
    """A `Parametrisation` from its name or itself; ``"mup:32"`` sets the base width."""
    if isinstance(parametrisation, Parametrisation):
        return parametrisation
    if isinstance(parametrisation, str):
        name, colon, base = parametrisation.strip().lower().replace("_", "-").partition(":")
        if name == "mup" and base.isdigit():
            return MaximalUpdate(int(base))
        if name in _BY_NAME and not colon:
            return _BY_NAME[name]()
    raise ValueError(
        f"unknown parametrisation {parametrisation!r}. Known: {', '.join(PARAMETRISATIONS)}, mup:BASE_WIDTH."
    )
