"""Every point with every label that it might have had: weights, means over classes, and levels."""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax, logsumexp, softmax

from finitewidth.measure.specimen import Specimen

Labels = Int[np.ndarray, " points"]


class Levels(NamedTuple):
    """One array for each of the four parts into which sums over points and candidate labels fall."""

    class_part: np.ndarray
    cross_class: np.ndarray
    within_class: np.ndarray
    same_label: np.ndarray


class Candidates(eqx.Module):
    r"""Points $i$ with true labels $c = y_i$ and candidate labels $c'$.

    The gradient of point i, had its label been c', is $g_{ic'} = J_i^T(p_i - e_{c'})$; it counts with the
    weight $w_{ic'} = p_{c'}(x_i)/N$. Means over the points of a class and over its wrong labels are weighted:
    $w_{cc'}g_{cc'} = \sum_{i\in c}w_{ic'}g_{ic'}$ and $w_cg_c = \sum_{c'\ne c}w_{cc'}g_{cc'}$. Probabilities
    of confident networks underflow; shares of weights are therefore taken between logarithms.
    """

    labels: Labels
    log_probabilities: Float[np.ndarray, "points classes"]

    @property
    def classes(self) -> int:
        """Number of classes, C."""
        return self.log_probabilities.shape[1]

    @property
    def probabilities(self) -> Float[np.ndarray, "points classes"]:
        """p_c'(x_i)."""
        return np.exp(self.log_probabilities)

    @property
    def weights(self) -> Float[np.ndarray, "points classes"]:
        """w_ic'."""
        return self.probabilities / len(self.labels)

    @property
    def wrong(self) -> np.ndarray:
        """Whether a candidate is not the true label, (points, classes)."""
        return self.labels[:, None] != np.arange(self.classes)

    @property
    def pair_weights(self) -> Float[np.ndarray, "classes classes"]:
        """w_cc', the true class first."""
        return np.exp(self._log_pair_weights)

    @property
    def class_weights(self) -> Float[np.ndarray, " classes"]:
        """w_c: of all wrong labels of a class together."""
        return np.exp(logsumexp(self._log_wrong_weights, axis=1))

    @property
    def point_shares(self) -> Float[np.ndarray, "points classes"]:
        """w_ic' / w_cc' for the class c of each point."""
        return np.exp(self.log_probabilities - np.log(len(self.labels)) - self._log_pair_weights[self.labels])

    @property
    def pair_shares(self) -> Float[np.ndarray, "classes classes"]:
        """w_cc' / w_c for wrong labels c', 0 for c' = c."""
        return softmax(self._log_wrong_weights, axis=1)

    @property
    def _log_pair_weights(self) -> Float[np.ndarray, "classes classes"]:
        of_class = [self.log_probabilities[self.labels == c] for c in range(self.classes)]
        return np.stack([logsumexp(rows, axis=0) for rows in of_class]) - np.log(len(self.labels))

    @property
    def _log_wrong_weights(self) -> Float[np.ndarray, "classes classes"]:
        return np.where(np.eye(self.classes, dtype=bool), -np.inf, self._log_pair_weights)

    def pair_means(self, values: Float[np.ndarray, "points classes *rest"]) -> np.ndarray:
        """Means of what every point has for every candidate, (classes, classes, ...)."""
        shares, C = self.point_shares, self.classes
        members = [self.labels == c for c in range(C)]
        return np.stack([np.einsum("nk,nk...->k...", shares[m], values[m]) for m in members])

    def class_means(self, pair_means: Float[np.ndarray, "classes classes *rest"]) -> np.ndarray:
        """Means over the wrong labels of each class, (classes, ...)."""
        return np.einsum("ck,ck...->c...", self.pair_shares, pair_means)

    def levels(self, values: Float[np.ndarray, "points classes"]) -> Levels:
        """Four arrays that add up to w_ic' r_ic': what the parts of G do to r_ic' = g_ic' . v."""
        pairs = self.pair_means(values)
        means = self.class_means(pairs)[self.labels][:, None]
        pairs, wrong = pairs[self.labels], self.wrong
        parts = (means + 0 * values, pairs - means, values - pairs)
        return Levels(
            *(np.where(wrong, self.weights * part, 0.0) for part in parts),
            same_label=np.where(wrong, 0.0, self.weights * values),
        )

    def project(self, outputs: Float[np.ndarray, "points out"]) -> Float[np.ndarray, "points classes"]:
        """(p_i - e_c') . s_i for changes s of the outputs."""
        return np.sum(self.probabilities * outputs, axis=1, keepdims=True) - outputs

    def gather(self, values: Float[np.ndarray, "points classes"]) -> Float[np.ndarray, "points out"]:
        """sum_c' q_ic' (p_i - e_c'): the transpose of `project`."""
        return values.sum(axis=1, keepdims=True) * self.probabilities - values


def candidates(specimen: Specimen) -> Candidates:
    """The candidates of a classifier that is trained by cross-entropy."""
    if specimen.loss != "cross_entropy":
        raise ValueError(
            f"the class structure of G is about loss='cross_entropy' with labels, got loss={specimen.loss!r}."
        )
    labels, _ = class_labels(specimen)
    return Candidates(labels, log_softmax(np.asarray(specimen.outputs(), np.float64), axis=1))


def class_labels(specimen: Specimen) -> tuple[Labels, int]:
    """The class of every point, from whole numbers or from rows with a single one, and how many there are."""
    y, classes = specimen.y, specimen.outputs().shape[1]
    if y is None:
        raise ValueError("the specimen has no labels y; classes need one for every point.")
    if y.ndim == 2 and y.shape[1] == classes and np.array_equal(np.sort(y)[:, -2:], [[0, 1]] * len(y)):
        y = np.argmax(y, axis=1)
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise ValueError(f"y must hold whole-number classes, got shape {y.shape} and type {y.dtype}.")
    if classes < 2:
        raise ValueError("classes need a network with one output per class; this one has a single output.")
    empty = np.flatnonzero(np.bincount(y, minlength=classes) == 0)
    if len(empty):
        raise ValueError(
            f"class {empty[0]} has no samples among the {len(y)} labels: "
            "add some, or measure a network without this output."
        )
    return y.astype(np.int64), classes
