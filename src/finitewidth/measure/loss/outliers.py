"""Bulk and outliers of a classifier's Hessian, and the space of its largest eigenvectors over training."""

from collections.abc import Iterable

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth.measure.loss.class_structure import Attribution, class_structure
from finitewidth.measure.loss.operators import hessian
from finitewidth.measure.loss.spectrum import eigenpairs, overlap, share_in_space
from finitewidth.measure.specimen import Specimen, Vector


class Outliers(eqx.Module):
    """The largest eigenvalues of H, how many of them stand out, and what they are made of."""

    values: Float[np.ndarray, " k"]
    "The k largest eigenvalues of H, largest first."
    residuals: Float[np.ndarray, " k"]
    "|H v - lambda v| of each."
    bulk_edge: float
    "Largest eigenvalue of the within-class and same-label parts of G together."
    attribution: Attribution
    "What the parts of G, and H - G, contribute to each eigenvalue."

    @property
    def by_gap(self) -> int:
        """Eigenvalues before the largest ratio of one to the next."""
        return largest_gap(self.values)

    @property
    def above_bulk(self) -> int:
        """Eigenvalues above `bulk_edge`, among the k that were computed.

        G has C (C - 1) of them at most: its other two parts have no larger rank, and a part of rank r lifts
        no more than r eigenvalues.
        """
        return int(np.sum(self.values > self.bulk_edge))


class TopSpaces(eqx.Module):
    """The space of the k largest eigenvectors of H at several weights."""

    values: Float[np.ndarray, "times k"]
    "The k largest eigenvalues, largest first."
    shares: Float[np.ndarray, " times"]
    "|P g|^2 / |g|^2: how much of the gradient of all points lies in the space. A random vector has k / p."
    overlaps: Float[np.ndarray, "times times"]
    "|V_s^T V_t|_F^2 / k of the spaces at each two times: 1 for the same space, k / p for random ones."


def outliers(specimen: Specimen, k: int | None = None) -> Outliers:
    """Find the outliers of a classifier's Hessian and the parts of G that they belong to.

    Parameters
    ----------
    specimen
        A classifier with whole-number labels and loss="cross_entropy".
    k
        How many eigenvalues to compute: 2 C + 2 when left out. Neither count can exceed it.
    """
    structure = class_structure(specimen)
    k = min(k or 2 * structure.candidates.classes + 2, specimen.weights.size - 1)
    pairs = eigenpairs(hessian(specimen), k)
    edge = eigenpairs(structure.bulk(), 1).values[0]
    return Outliers(pairs.values, pairs.residuals, float(edge), structure.attribute(pairs.vectors))


def largest_gap(values: Float[np.ndarray, " k"]) -> int:
    """How many positive numbers, largest first, come before the largest ratio of one to the next."""
    positive = values[values > 0]
    if len(positive) < 2:
        return len(positive)
    return int(np.argmax(positive[:-1] / positive[1:])) + 1


def top_spaces(specimen: Specimen, path: Iterable[Vector], k: int) -> TopSpaces:
    """Follow the k largest eigenvectors of H, and the gradient's share in them, along a path of weights.

    Parameters
    ----------
    specimen
        Any network with a loss; for a classifier k is usually the number of classes.
    path
        Weights at several times, each in a row.
    k
        Dimension of the space.
    """
    values, shares, spaces = [], [], []
    for weights in path:
        here = specimen.at(weights)
        pairs = eigenpairs(hessian(here), k)
        values.append(pairs.values)
        spaces.append(pairs.vectors)
        shares.append(share_in_space(here.gradient(), spaces[-1]))
    if not values:
        raise ValueError("path has no weights; it needs those of at least one time.")
    overlaps = [[overlap(one, other) for other in spaces] for one in spaces]
    return TopSpaces(np.array(values), np.array(shares), np.array(overlaps))
