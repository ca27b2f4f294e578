r"""Signals and gradients by layer: what grows, what dies, what no longer tells the inputs apart.

At a site with preactivations $z$ (points, positions, units), forwards $\mathrm{Avg}\, z^2$ and backwards
$b=\mathrm{Avg}_i\,|\partial(u\cdot f)/\partial z(x_i)|^2$, with a random cotangent $u$ on the outputs: a
network at its minimum has no gradient of the loss, but it has this one. Critical layers leave both as they
are, whatever their widths.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.architecture.activations import BUILT_IN, WITHOUT_KERNELS
from finitewidth.measure.sites import Site

# Activations that are zero for all negative numbers.
HALF_FLAT = ("relu", "relu6")


class SiteSignals(NamedTuple):
    """What one site does to signals and gradients."""

    name: str
    """The name of the site."""
    kind: str
    """The kind of the site."""
    units: int
    """How many numbers leave at one position: outputs of a dense layer, channels of a convolution."""
    activation: str | None
    """The function applied next, if known."""
    forward: float
    """Mean of z^2 over points, positions and units."""
    spread: float
    """Variance of z over the points, over its mean square: 0 where all points look alike, at most 1."""
    backward: float
    """Mean over the points of |d(u.f) / dz|^2, the sum over positions and units."""
    dead: float | None
    """Share of units with z <= 0 at every point and position; None but for ReLU and its like."""
    saturated: float | None
    """Share of entries where the slope is below 5 % of its maximum; None without flat ends."""
    effective_units: float
    """In how many directions the units vary over points and positions."""
    beside: bool
    """Whether it stands beside the site before it, because the same numbers enter: query, key and value."""
    gate: bool = False
    """Whether its activation only weighs other numbers, as the gates of a recurrent layer do."""


class Signals(NamedTuple):
    """Signals and gradients through a network."""

    sites: tuple[SiteSignals, ...]
    """Every site, in the order of the computation."""
    output_spread: float
    """Variance of the outputs over the points, over their mean square; in units of the targets' if given."""

    @property
    def steps(self) -> tuple[tuple[SiteSignals, ...], ...]:
        """The sites in steps through the depth: those that stand beside each other are one step."""
        found: list[list[SiteSignals]] = []
        for site in self.sites:
            if site.beside and found:
                found[-1].append(site)
            else:
                found.append([site])
        return tuple(tuple(step) for step in found)

    @property
    def layers(self) -> int:
        """L, how many steps lie between the first hidden site and the last."""
        return max(len(self.steps) - 2, 0)

    @property
    def decades(self) -> float:
        """D = log10(b of the first hidden step / b of the last): below zero gradients vanish on their way."""
        if self.layers == 0:
            return 0.0
        first, last = (sum(site.backward for site in step) for step in (self.steps[0], self.steps[-2]))
        if not math.isfinite(first):
            return math.inf
        return math.log10(first / last) if first > 0 and last > 0 else -math.inf

    @property
    def factors(self) -> Float[np.ndarray, " steps"]:
        """b of every hidden step over b of the next: what one layer multiplies squared gradients with."""
        sizes = np.array([sum(site.backward for site in step) for step in self.steps[:-1]])
        with np.errstate(divide="ignore", invalid="ignore"):
            return sizes[:-1] / sizes[1:]


def signals(
    sites: Sequence[Site],
    outputs: Float[np.ndarray, "points out"],
    targets: Float[np.ndarray, "points *out"] | None = None,
) -> Signals:
    """Signals and gradients at the sites of a network.

    Parameters
    ----------
    sites
        What `Specimen.look` returned, for a random cotangent.
    outputs
        f at every point.
    targets
        The numbers that a regression fits: it is right to tell the points apart no more than they do.
    """
    own = np.inf if targets is None else _spread(np.asarray(targets))
    reference = own if 0 < own < 1 else 1.0
    return Signals(
        tuple(_site_signals(site, before) for site, before in zip(sites, (None, *sites[:-1]), strict=True)),
        _spread(outputs) / reference,
    )


def _site_signals(site: Site, before: Site | None) -> SiteSignals:
    z, gradient = site.leaving.astype(float), site.gradient.astype(float)
    return SiteSignals(
        name=site.name,
        kind=site.kind,
        units=z.shape[-1],
        activation=site.activation,
        forward=float(np.vdot(z, z) / z.size),
        spread=_spread(z),
        backward=float(np.vdot(gradient, gradient) / len(z)),
        dead=dead_share(site),
        saturated=saturated_share(site),
        effective_units=effective_units(z),
        beside=before is not None and _same(before.entering, site.entering),
        gate=site.gate,
    )


def dead_share(site: Site) -> float | None:
    """Share of units with z <= 0 at every point and position; None but for ReLU and its like."""
    if site.activation not in HALF_FLAT:
        return None
    z = site.into_activation
    return float(np.mean(np.all(z.reshape(-1, z.shape[-1]) <= 0, axis=0)))


def saturated_share(site: Site) -> float | None:
    """Share of entries where the slope is below 5 % of its maximum; None without flat ends."""
    row = (BUILT_IN | WITHOUT_KERNELS).get(site.activation or "")
    if row is None or row.flat_beyond is None:
        return None
    return float(np.mean(np.abs(site.into_activation) > row.flat_beyond))


def effective_units(features: Float[np.ndarray, "points ..."]) -> float:
    r"""Directions in which the units of a layer vary, over the points and the positions of a picture.

    $(\sum_k s_k)^2/\sum_k s_k^2$ with the eigenvalues $s_k$ of their covariance: the number of units where
    all are equal, one where all units move together.
    """
    rows = np.asarray(features, float).reshape(-1, features.shape[-1])
    rows = rows - rows.mean(axis=0)
    square = rows.T @ rows if rows.shape[1] <= rows.shape[0] else rows @ rows.T
    trace = float(np.trace(square))
    return trace**2 / float(np.sum(square**2)) if trace > 0 else 0.0


def _spread(values: np.ndarray) -> float:
    """Variance over the points over the mean square, each averaged over all entries."""
    values = np.asarray(values, float)
    size = float(np.max(np.abs(values)))
    if not 0 < size < np.inf:
        return 0.0 if size == 0 else np.nan
    values = values / size
    return float(np.mean(np.var(values, axis=0)) / np.mean(np.square(values)))


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or (one.shape == other.shape and bool(np.array_equal(one, other)))
