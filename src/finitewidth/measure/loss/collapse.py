"""Neural collapse: how far the features of each class have shrunk to the vertices of a simplex."""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth.measure.loss.candidates import class_labels
from finitewidth.measure.loss.layer_structure import as_rows, class_means
from finitewidth.measure.sites import Site
from finitewidth.measure.specimen import Specimen

# A matrix is the classifier when it turns the last features into the outputs up to rounding.
_SAME_OUTPUTS = {np.dtype("float32"): 1e-4, np.dtype("float64"): 1e-10}


class Collapse(eqx.Module):
    r"""Neural collapse of the features h that enter one layer.

    $\mu_c$ are the class means, $\mu_G = \mathrm{Avg}_c\,\mu_c$ their mean, whatever the classes' sizes;
    $\Sigma_B = \mathrm{Avg}_c(\mu_c-\mu_G)(\mu_c-\mu_G)^T$ and $\Sigma_W =
    \mathrm{Avg}_i(h_i-\mu_c)(h_i-\mu_c)^T$. All numbers but the mean cosine tend to zero under collapse.
    """

    name: str = eqx.field(static=True)
    "The site that the features enter; the last one is the classifier."
    variability: float
    "NC1: tr(Sigma_W Sigma_B^+) / C, inverted on the C - 1 eigenvectors of Sigma_B; inf for equal means."
    equinorm: float
    "NC2: standard deviation of the norms of mu_c - mu_G over their mean."
    equiangle: float
    "NC2: standard deviation of the cosines between mu_c - mu_G and mu_c' - mu_G."
    mean_cosine: float
    "Their mean, close to -1 / (C - 1) for any centred means of similar norms: no evidence of a frame."
    frame_distance: float
    "NC2: distance of the Gram matrix of mu_c - mu_G from the simplex frame's, both of Frobenius norm one."
    self_duality: float
    """NC4: distance of the classifier's centred rows from mu_c - mu_G, both of Frobenius norm one; nan for
    hidden layers and for a last layer that is not a matrix."""
    mismatch: float
    "NC3: share of the points where the nearest class mean is not the class that the network predicts."
    fresh_mismatch: float
    "The same on points that the means were not made of; nan without them."


def collapse(specimen: Specimen, *, fresh: np.ndarray | None = None) -> tuple[Collapse, ...]:
    """Neural collapse layer by layer, from the inputs to the features that the classifier sees.

    Parameters
    ----------
    specimen
        A classifier: whole-number labels, or rows with a single one. The loss does not matter.
    fresh
        Inputs (points, ...) that were not trained on, for the nearest class mean.

    Returns
    -------
    tuple of Collapse
        One for each layer; the last is what the literature calls neural collapse. Over training:
        `[collapse(specimen.at(weights))[-1] for weights in path]`.
    """
    labels, classes = class_labels(specimen)
    sites, predicted = _look(specimen), np.argmax(specimen.outputs(), axis=1)
    others, predicted_others = (), None
    if fresh is not None:
        held_out = specimen.on(fresh, None)
        others, predicted_others = _look(held_out), np.argmax(held_out.outputs(), axis=1)
    found = []
    for place, site in enumerate(sites):
        h = as_rows(site.entering)
        means = class_means(h, labels, classes)
        last = place == len(sites) - 1
        centred = means - means.mean(axis=0)
        norms = np.linalg.norm(centred, axis=1)
        cosines = _cosines(centred, norms)
        found.append(
            Collapse(
                name=site.name,
                variability=_variability(h - means[labels], centred),
                equinorm=float(norms.std() / norms.mean()) if norms.any() else math.nan,
                equiangle=float(np.std(cosines)),
                mean_cosine=float(np.mean(cosines)),
                frame_distance=_distance(centred @ centred.T, np.eye(classes) - 1 / classes),
                self_duality=_self_duality(specimen, site, centred) if last else math.nan,
                mismatch=_mismatch(h, means, predicted),
                fresh_mismatch=math.nan
                if predicted_others is None
                else _mismatch(as_rows(others[place].entering), means, predicted_others),
            )
        )
    return tuple(found)


def classifier(specimen: Specimen, site: Site) -> Float[np.ndarray, "out features"] | None:
    """The matrix W of a last layer W h + b, found among the parameters by what it does, or None.

    Frameworks store it either way round, and name it in their own way.
    """
    h, z = as_rows(site.entering), as_rows(site.leaving)
    tolerance = _SAME_OUTPUTS[specimen.weights.dtype]
    for place, shape in specimen.groups.values():
        if sorted(shape) != sorted((z.shape[1], h.shape[1])):
            continue
        matrix = np.asarray(specimen.weights[place], np.float64).reshape(shape)
        for W in (matrix, matrix.T):
            if W.shape == (z.shape[1], h.shape[1]):
                bias = z - h @ W.T
                if np.ptp(bias, axis=0).max() <= tolerance * (np.abs(z).max() + np.abs(h @ W.T).max()):
                    return W
    return None


def _look(specimen: Specimen) -> tuple[Site, ...]:
    return specimen.look(np.zeros_like(specimen.outputs()))


def _variability(within: np.ndarray, centred: np.ndarray) -> float:
    """tr(Sigma_W Sigma_B^+) / C, from the singular vectors of the centred means."""
    classes = len(centred)
    _, size, directions = np.linalg.svd(centred / np.sqrt(classes), full_matrices=False)
    kept = size[: classes - 1] > 1e-10 * size[0]
    if not size[0] or not kept.any():
        return math.inf
    along = within @ directions[: classes - 1][kept].T
    return float(np.sum(np.mean(along**2, axis=0) / size[: classes - 1][kept] ** 2) / classes)


def _cosines(centred: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Cosines between each two different centred means."""
    if not norms.all():
        return np.full(1, math.nan)
    cosines = centred @ centred.T / np.outer(norms, norms)
    return cosines[np.triu_indices(len(norms), 1)]


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    """Frobenius distance of two matrices after both have been divided by their norms."""
    sizes = np.linalg.norm(first), np.linalg.norm(second)
    return float(np.linalg.norm(first / sizes[0] - second / sizes[1])) if all(sizes) else math.nan


def _self_duality(specimen: Specimen, site: Site, centred: np.ndarray) -> float:
    W = classifier(specimen, site)
    return math.nan if W is None or len(W) != len(centred) else _distance(W - W.mean(axis=0), centred)


def _mismatch(h: np.ndarray, means: np.ndarray, predicted: np.ndarray) -> float:
    # |h - mu|^2 without |h|^2, which is the same for every class.
    nearest = np.argmin(np.sum(means**2, axis=1) - 2 * h @ means.T, axis=1)
    return float(np.mean(nearest != predicted))
