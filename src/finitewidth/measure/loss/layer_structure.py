"""Features and backpropagated errors of every layer, split by classes as the Gauss-Newton matrix is."""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth.measure.loss.candidates import candidates, class_labels
from finitewidth.measure.loss.class_structure import Factored
from finitewidth.measure.specimen import Specimen


class FeatureStructure(eqx.Module):
    r"""$\mathrm{Avg}_i\,h_ih_i^T = h_Gh_G^T + \Sigma_B + \Sigma_W$ for the features h that enter one layer.

    The first two terms are the class part $\sum_c\pi_ch_ch_c^T$, with the shares $\pi_c$ of the classes. The
    axes of convolutional features are put in a row.
    """

    name: str = eqx.field(static=True)
    "The site that the features enter."
    global_mean: Factored
    "h_G h_G^T: one column, the mean feature of all points."
    between: Factored
    "Sigma_B: columns sqrt(pi_c) (h_c - h_G)."
    within: Factored
    "Sigma_W: columns (h_i - h_c) / sqrt(N)."

    @property
    def class_part(self) -> Factored:
        """The part of the class means: h_G h_G^T + Sigma_B."""
        return Factored(np.concatenate([self.global_mean.factor, self.between.factor], axis=1))


class ErrorStructure(eqx.Module):
    """The second moment of the errors that flow back to one layer, in the four parts of `ClassStructure`.

    The error of point i for candidate label c' is its loss differentiated by what leaves the layer, before
    the activation. It takes the place of the gradient by the parameters; weights and means are the same.
    """

    name: str = eqx.field(static=True)
    "The site whose output is meant."
    class_part: Factored
    "Columns sqrt(w_c) delta_c."
    cross_class: Factored
    "Columns sqrt(w_cc') (delta_cc' - delta_c) for c' other than c."
    within_class: Factored
    "Columns sqrt(w_icc') (delta_icc' - delta_cc') for c' other than c."
    same_label: Factored
    "Columns sqrt(w_icc) delta_icc."


def feature_structure(specimen: Specimen) -> tuple[FeatureStructure, ...]:
    """The class structure of the features that enter every layer, the first layer's inputs among them."""
    labels, classes = class_labels(specimen)
    cotangent = np.zeros_like(specimen.outputs())
    return tuple(
        _features(site.name, as_rows(site.entering), labels, classes) for site in specimen.look(cotangent)
    )


def error_structure(specimen: Specimen) -> tuple[ErrorStructure, ...]:
    """The class structure of backpropagated errors at every layer: one pass for each candidate label."""
    found, dtype = candidates(specimen), specimen.weights.dtype
    looks = []
    for k in range(found.classes):
        residual = found.probabilities.copy()
        residual[:, k] = np.expm1(found.log_probabilities[:, k])
        looks.append(specimen.look(residual.astype(dtype)))
    structures = []
    for sites in zip(*looks, strict=True):
        errors = np.stack([as_rows(site.gradient) for site in sites], axis=1)
        pairs = found.pair_means(errors)
        means = found.class_means(pairs)
        off, wrong = ~np.eye(found.classes, dtype=bool), found.wrong
        cross = np.sqrt(found.pair_weights)[..., None] * (pairs - means[:, None])
        within = np.sqrt(found.weights)[..., None] * (errors - pairs[found.labels])
        same = np.sqrt(found.weights)[..., None] * errors
        structures.append(
            ErrorStructure(
                sites[0].name,
                Factored((np.sqrt(found.class_weights)[:, None] * means).T),
                Factored(cross[off].T),
                Factored(within[wrong].T),
                Factored(same[~wrong].T),
            )
        )
    return tuple(structures)


def _features(name: str, h: Float[np.ndarray, "points size"], labels: np.ndarray, classes: int):
    shares = np.bincount(labels) / len(labels)
    means = class_means(h, labels, classes)
    overall = shares @ means
    return FeatureStructure(
        name,
        Factored(overall[:, None]),
        Factored((np.sqrt(shares)[:, None] * (means - overall)).T),
        Factored((h - means[labels]).T / np.sqrt(len(h))),
    )


def class_means(h: Float[np.ndarray, "points size"], labels: np.ndarray, classes: int) -> np.ndarray:
    """The mean of each class, (classes, size)."""
    return np.stack([h[labels == c].mean(axis=0) for c in range(classes)])


def as_rows(values: np.ndarray) -> Float[np.ndarray, "points size"]:
    """One row per point, in double precision."""
    return np.asarray(values, np.float64).reshape(len(values), -1)
