"""Which learning rate is best: the loss over a grid of rates, on points held out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import optax
from jaxtyping import Float, PRNGKeyArray

from finitewidth.architecture import Layer
from finitewidth.networks.ensembles import train_ensemble
from finitewidth.networks.models import Inputs, as_model, as_points
from finitewidth.networks.observables import Outputs
from finitewidth.networks.training import DivergenceError


class LearningRateSweep(NamedTuple):
    """Losses of several networks over learning rates."""

    rates: Float[np.ndarray, " rates"]
    """Learning rates, ascending."""
    losses: Float[np.ndarray, "networks rates"]
    """Half the mean square error on the points held out; a network that diverged counts as zero outputs."""

    @property
    def curve(self) -> Float[np.ndarray, " rates"]:
        """Geometric mean over the networks."""
        return 2.0 ** np.log2(self.losses).mean(axis=0)

    @property
    def best(self) -> float:
        """The best rate, between the grid's: the minimum of a parabola in logarithms."""
        return best_rate(self.rates, self.curve)


def best_rate(rates: Float[np.ndarray, " rates"], losses: Float[np.ndarray, " rates"]) -> float:
    """The minimum of the parabola through the lowest loss and its neighbours, in logarithms."""
    rates, losses = np.log2(np.asarray(rates, float)), np.log2(np.asarray(losses, float))
    if len(rates) < 3:
        raise ValueError(f"a best rate needs at least 3 rates, got {len(rates)}.")
    k = int(np.clip(np.argmin(losses), 1, len(rates) - 2))
    left, middle, right = losses[k - 1 : k + 2]
    spacing = (rates[k + 1] - rates[k - 1]) / 2
    return float(2.0 ** (rates[k] + spacing * 0.5 * (left - right) / (left - 2 * middle + right)))


def learning_rate_sweep(
    net: Layer,
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    x_test: Inputs,
    y_test: Inputs,
    rates: Sequence[float] | Float[np.ndarray, " rates"],
    *,
    steps: int,
    optimizer: str = "adam",
    batch_size: int | None = None,
) -> LearningRateSweep:
    """Train networks at every learning rate and judge them on points held out.

    Parameters
    ----------
    net
        The network; its parametrisation decides how rates scale with width.
    key, size
        Draws so many networks; each has the same start at every rate.
    x, y, x_test, y_test
        Training points, and points held out, with labels.
    rates
        Learning rates, ascending; powers of two for `best`.
    steps, optimizer, batch_size
        As for `train`.
    """
    grid = np.asarray(rates, float)
    if grid.ndim != 1 or not len(grid) or not (grid > 0).all() or not (np.diff(grid) > 0).all():
        raise ValueError(f"rates must be positive and ascending, got {grid.tolist()}.")
    labels = np.asarray(y_test, float).reshape(len(np.asarray(x_test)), -1)
    losses = [_losses(net, key, size, x, y, x_test, labels, r, steps, optimizer, batch_size) for r in grid]
    return LearningRateSweep(grid, np.stack(losses, axis=1))


def _losses(
    net: Layer,
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    x_test: Inputs,
    labels: np.ndarray,
    rate: float,
    steps: int,
    optimizer: str | optax.GradientTransformation,
    batch_size: int | None,
) -> Float[np.ndarray, " networks"]:
    try:
        trained = train_ensemble(
            net,
            key,
            size,
            x,
            y,
            steps=steps,
            optimizer=optimizer,
            learning_rate=float(rate),
            batch_size=batch_size,
            record={"outputs": Outputs(as_model(net), as_points("x_test", x_test))},
            record_every=steps,
        )
    except DivergenceError:
        return np.full(size, np.mean(labels**2) / 2)
    outputs = np.asarray(trained.recorded["outputs"], float)[:, -1]
    return np.mean((outputs - labels) ** 2, axis=(1, 2)) / 2
