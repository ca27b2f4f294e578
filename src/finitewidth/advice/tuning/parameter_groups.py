r"""Learning rates of a residual network by parameter group, optimiser and scaling with width and depth.

Gradient steps: the rates of the NTK, $\eta/n$ for weights with n inputs and $\eta$ for biases; a branch scale
$1/\sqrt L$ gives every block the share $1/L$ of the NTK, so they do not depend on depth. Steps of fixed size
(Adam, Muon) move the stream by $\beta\eta$ in every block, all L in one direction: with $\beta=1/\sqrt L$ the
rate of the blocks falls as $1/\sqrt L$.
"""

from typing import Literal, get_args

from finitewidth.algorithms.optimizers import OPTIMIZERS
from finitewidth.architecture.parametrisation import Geometry, MaximalUpdate, Place

Optimizer = Literal["sgd", "adam", "muon"]
Scaling = Literal["standard", "mup"]
GROUPS: tuple[str, ...] = ("first weights", "block weights", "last weights", "hidden biases", "last bias")


def group_rates(
    optimizer: Optimizer,
    scaling: Scaling,
    learning_rate: float,
    *,
    sizes: tuple[int, int, int],
    base_width: int,
    depth_ratio: float,
) -> dict[str, float]:
    """Learning rates of the five groups; `sizes` are inputs, width and outputs."""
    for name, value, known in (("optimizer", optimizer, Optimizer), ("scaling", scaling, Scaling)):
        if value not in get_args(known):
            raise ValueError(f"{name} must be one of {', '.join(get_args(known))}, got {value!r}.")
    n_in, width, n_out = sizes
    rates = dict.fromkeys(GROUPS, float(learning_rate))
    if optimizer == "sgd":
        hidden = base_width if scaling == "mup" else width
        rates["first weights"] /= n_in
        rates["block weights"] /= hidden
        rates["last weights"] /= hidden
    if scaling == "mup":
        places = [
            Place(n_in, width, width, first=True, last=False),
            Place(width, width, width, first=False, last=False),
            Place(width, n_out, width, first=False, last=True),
        ]
        geometry = OPTIMIZERS[optimizer].geometry
        parametrisation = MaximalUpdate(base_width)
        # Muon is for the matrices of the blocks alone; Adam moves the rest.
        geometries: list[Geometry] = ["entrywise" if geometry == "spectral" else geometry] * 3
        geometries[1] = geometry
        factors = [parametrisation.rates(p, g) for p, g in zip(places, geometries, strict=True)]
        for group, factor in zip(GROUPS[:3], factors, strict=True):
            rates[group] *= factor.weight
        rates["hidden biases"] *= factors[0].bias
        rates["last bias"] *= factors[2].bias
        if optimizer != "sgd":
            rates["block weights"] *= depth_ratio**0.5
    return rates
