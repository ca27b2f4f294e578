"""The three-level class structure: of gradients, of features and of backpropagated errors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.loss_landscape.networks.classifiers import Architecture, Clusters, clusters, programs
from finitewidth.measure.loss.class_structure import class_structure
from finitewidth.measure.loss.layer_structure import error_structure, feature_structure
from finitewidth.measure.specimen import Specimen
from finitewidth.report import style
from finitewidth.report.style import Figure

_PARTS = ("class", "cross-class", "within", "same label")


@dataclass(frozen=True)
class Classifier(RandomProblem):
    """A small classifier of classes of unequal sizes, a few steps into its training."""

    sizes: tuple[int, ...] = (6, 9, 12, 15)
    hidden: tuple[int, ...] = (8, 8)
    n_in: int = 5
    steps: int = 40

    @property
    def architecture(self) -> Architecture:
        """A ReLU network with one output per class."""
        return Architecture(self.hidden, "relu", self.n_in, len(self.sizes))

    @property
    def data(self) -> Clusters:
        """Overlapping clusters."""
        return clusters(self.rng(0), self.sizes, self.n_in, 1.0)[0]

    @property
    def weights(self) -> np.ndarray:
        """The weights after training."""
        return _trained(self)

    @property
    def specimen(self) -> Specimen:
        """The network that both sides are about."""
        return self.architecture.specimen(self.weights, self.data)

    @property
    def candidates(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (points, classes) and the residuals p_i - e_c' (points, candidates, classes)."""
        p = np.asarray(jax.nn.softmax(programs(self.architecture).outputs(self.weights, self.data.x)))
        return p, p[:, None, :] - np.eye(len(self.sizes))

    def split(self, vectors: np.ndarray, *, weighted: bool = True, other_class: bool = False) -> np.ndarray:
        """The four parts summed by their formulas, from vectors (points, candidates, size).

        `weighted=False` takes plain means, `other_class=True` subtracts the mean of class c' in place of c.
        """
        p, _ = self.candidates
        w, y, C, size = p / len(p), self.data.y, len(self.sizes), vectors.shape[-1]
        pairs, pair_weights = np.zeros((C, C, size)), np.zeros((C, C))
        for c in range(C):
            of_class = y == c
            pair_weights[c] = w[of_class].sum(axis=0)
            shares = (
                w[of_class] / pair_weights[c] if weighted else np.full((sum(of_class), C), 1 / sum(of_class))
            )
            pairs[c] = np.einsum("nk,nks->ks", shares, vectors[of_class])
        off = ~np.eye(C, dtype=bool)
        class_weights = (pair_weights * off).sum(axis=1)
        means = [
            np.average(pairs[c][off[c]], axis=0, weights=pair_weights[c][off[c]] if weighted else None)
            for c in range(C)
        ]
        total = np.einsum("c,cs,ct->st", class_weights, means, means)
        for c, k in zip(*np.nonzero(off), strict=True):
            apart = pairs[c, k] - means[k if other_class else c]
            total = total + pair_weights[c, k] * np.outer(apart, apart)
        for i, k in np.ndindex(*p.shape):
            apart = vectors[i, k] - (0 if k == y[i] else pairs[y[i], k])
            total = total + w[i, k] * np.outer(apart, apart)
        return total


@lru_cache(maxsize=4)
def _weights(kind: Architecture, sizes: tuple[int, ...], seed: int, steps: int) -> np.ndarray:
    problem = Classifier(sizes, kind.hidden, kind.n_in, steps, seed=seed)
    run = programs(kind).noisy_descent(
        kind.start(seed), *problem.data, jax.random.key(seed), 0.1, 0.0, 1, 1, steps
    )
    return np.asarray(run[-1])


def _trained(setting: Classifier) -> np.ndarray:
    return _weights(setting.architecture, setting.sizes, setting.seed, setting.steps)


@dataclass(frozen=True)
class Gradients(Classifier):
    """G by its four parts, and by differentiating the loss of the linearised network twice."""

    def theory(self) -> Prediction:
        found, C = class_structure(self.specimen), len(self.sizes)
        factors = [part.factor for part in (found.class_part(), found.cross_class_part())]
        bulk = np.stack([found.bulk().matvec(v) for v in np.eye(self.weights.size)])
        total = np.sum([factor @ factor.T for factor in factors], axis=0) + bulk
        return {"G": total, "ranks": np.array([C, C * (C - 2)]), "score": np.zeros(self.weights.size)}

    def measure(self, key) -> Measurement:
        run, data, w = programs(self.architecture), self.data, jnp.asarray(self.weights)
        outputs, slope = jax.linearize(lambda w: run.outputs(w, data.x), w)

        def loss_of_linear(change):
            f = outputs + slope(change)
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(f), data.y[:, None], axis=1))

        p, residuals = self.candidates
        gradients = np.einsum("nks,nck->ncs", jax.jacobian(run.outputs)(w, data.x), residuals)
        ranks = [np.linalg.matrix_rank(factor) for factor in _factors(self, gradients)]
        score = np.abs(np.einsum("nc,ncs->ns", p, gradients)).max(axis=0)
        hessian = jax.hessian(loss_of_linear)(jnp.zeros_like(w))
        return {"G": exact(np.asarray(hessian)), "ranks": exact(np.array(ranks)), "score": exact(score)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        scale = np.abs(predicted["G"]).max()
        return [
            absolute_error("G in units of its largest entry", predicted["G"] / scale,
                           measured["G"].value / scale, 1e-10),
            absolute_error("ranks of class and cross-class part", predicted["ranks"], measured["ranks"], 0.5),
            absolute_error("mean gradient over drawn labels", predicted["score"], measured["score"], 1e-12),
        ]  # fmt: skip

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        picture, (spectra, shares) = style.panels("Where the curvature of a classifier comes from", 2)
        found = class_structure(self.specimen)
        bulk = np.stack([found.bulk().matvec(v) for v in np.eye(self.weights.size)])
        largest = np.linalg.eigvalsh(bulk)[::-1]
        top = 16
        values, vectors = np.linalg.eigh(measured["G"].value)
        for x, (name, shown) in enumerate(
            {
                "G": values[::-1],
                "class": found.class_part().eigenvalues(),
                "cross-class": found.cross_class_part().eigenvalues(),
                "within, same label": largest,
            }.items()
        ):
            shown = shown[shown > values[-1] * 1e-3][:40]
            spectra.plot(np.full(len(shown), x), shown, "_", ms=22, mew=1.6, color=style.PALETTE[x])
            spectra.text(x, values[-1] * 1.4, name, ha="center", fontsize=8.5, color=style.PALETTE[x])
        spectra.set(yscale="log", xlim=(-0.6, 3.6), title="Eigenvalues of G and of its parts")
        spectra.set_ylim(top=2 * values[-1])
        spectra.set_xticks([])
        parts = found.attribute(vectors[:, ::-1][:, :top]).parts
        parts = parts / parts.sum(axis=1, keepdims=True)
        bottom = np.zeros(top)
        for name, share, color in zip(_PARTS, parts.T, style.PALETTE[1:], strict=False):
            shares.bar(np.arange(1, top + 1), share, bottom=bottom, color=color, label=name, width=0.85)
            bottom += share
        shares.set(xlabel="eigenvalue of G, largest first", title="Share of each part", ylim=(0, 1))
        shares.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, fontsize=8)
        return picture


@dataclass(frozen=True)
class Features(Classifier):
    """The second moment of the last hidden features, and its class part, for classes of unequal sizes."""

    def theory(self) -> Prediction:
        last = feature_structure(self.specimen)[-1]
        size = np.eye(len(last.between.factor))
        class_part = last.class_part.operator() @ size
        return {
            "second moment": class_part + last.within.operator() @ size,
            "class part": class_part,
            "alignment": np.array(1.0),
        }

    def measure(self, key) -> Measurement:
        h, y = self.features, self.data.y
        means = np.stack([h[y == c].mean(axis=0) for c in range(len(self.sizes))])
        shares = np.array(self.sizes) / len(h)
        top = np.linalg.eigh(h.T @ h)[1][:, -1]
        mean = h.mean(axis=0)
        return {
            "second moment": exact(h.T @ h / len(h)),
            "class part": exact((shares * means.T) @ means),
            "alignment": exact(abs(top @ mean) / np.linalg.norm(mean)),
        }

    @property
    def features(self) -> np.ndarray:
        """What enters the last layer."""
        net, params = self.architecture.net, self.architecture.params(self.weights)
        return np.asarray(net.activation(net.preactivations(params, jnp.asarray(self.data.x))[-2]))

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        scale = np.abs(predicted["second moment"]).max()
        pairs = {"second moment of features": "second moment", "class part": "class part"}
        return [
            *(
                absolute_error(text, predicted[name] / scale, measured[name].value / scale, 1e-12)
                for text, name in pairs.items()
            ),
            absolute_error("top eigenvector along the global mean", predicted["alignment"],
                           measured["alignment"], 0.1),
        ]  # fmt: skip


@dataclass(frozen=True)
class Errors(Classifier):
    """The second moment of the errors at every layer by its four parts, and by B^T (diag p - p p^T) B."""

    def theory(self) -> Prediction:
        predicted = {}
        for layer, found in enumerate(error_structure(self.specimen)):
            parts = (found.class_part, found.cross_class, found.within_class, found.same_label)
            predicted[f"layer {layer + 1}"] = sum(part.factor @ part.factor.T for part in parts)
        return predicted

    def measure(self, key) -> Measurement:
        p, _ = self.candidates
        curvature = p[:, :, None] * np.eye(len(self.sizes)) - p[:, :, None] * p[:, None, :]
        return {
            f"layer {layer + 1}": exact(np.einsum("nas,nab,nbt->st", B, curvature, B) / len(p))
            for layer, B in enumerate(self.backward_maps())
        }

    def backward_maps(self) -> list[np.ndarray]:
        """df_i / dz_i for the preactivations z of every layer, (points, classes, width)."""
        net, params = self.architecture.net, self.architecture.params(self.weights)

        def above(layer: int) -> Callable:
            def outputs(z):
                for weight, bias in params[layer + 1 :]:
                    z = net.activation(z) @ weight.T + bias
                return z

            return outputs

        z = net.preactivations(params, jnp.asarray(self.data.x))
        return [np.asarray(jax.vmap(jax.jacobian(above(l)))(z[l])) for l in range(len(z))]

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name, value in predicted.items():
            scale = np.abs(value).max()
            yield absolute_error(
                f"errors at {name}, in units of the largest entry", value / scale,
                measured[name].value / scale, 1e-12,
            )  # fmt: skip


def _factors(setting: Classifier, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns g_c and g_cc' - g_c, written out."""
    p, y, C = setting.candidates[0], setting.data.y, len(setting.sizes)
    first, second = [], []
    for c in range(C):
        weights = p[y == c]
        pairs = np.einsum("nk,nks->ks", weights, gradients[y == c]) / weights.sum(axis=0)[:, None]
        wrong = [k for k in range(C) if k != c]
        mean = np.average(pairs[wrong], axis=0, weights=weights.sum(axis=0)[wrong])
        first.append(mean)
        second += [pairs[k] - mean for k in wrong]
    return np.array(first), np.array(second)


def _gradients(setting: Classifier) -> np.ndarray:
    run = programs(setting.architecture)
    J = jax.jacobian(run.outputs)(jnp.asarray(setting.weights), setting.data.x)
    return np.einsum("nks,nck->ncs", J, setting.candidates[1])


def _errors(setting: Errors, layer: int) -> np.ndarray:
    return np.einsum("nks,nck->ncs", setting.backward_maps()[layer], setting.candidates[1])


def _plain_means(setting: Gradients, value: np.ndarray) -> np.ndarray:
    """Means that ignore the probabilities."""
    return setting.split(_gradients(setting), weighted=False)


def _other_class(setting: Gradients, value: np.ndarray) -> np.ndarray:
    """The mean of class c' subtracted in the cross-class part."""
    return setting.split(_gradients(setting), other_class=True)


def _true_labels(setting: Gradients, value: np.ndarray) -> np.ndarray:
    """The second moment over true labels alone."""
    g = _gradients(setting)[np.arange(len(setting.data.y)), setting.data.y]
    return g.T @ g / len(g)


def _plain_errors(setting: Errors, value: np.ndarray) -> np.ndarray:
    """Means of errors that ignore the probabilities."""
    return setting.split(_errors(setting, 0), weighted=False)


def _errors_of_true_labels(setting: Errors, value: np.ndarray) -> np.ndarray:
    """Errors for the true labels alone."""
    d = _errors(setting, 0)[np.arange(len(setting.data.y)), setting.data.y]
    return d.T @ d / len(d)


def _equal_classes(setting: Features, value: np.ndarray) -> np.ndarray:
    """Every class counted alike, whatever its size."""
    h, y = setting.features, setting.data.y
    means = np.stack([h[y == c].mean(axis=0) for c in range(len(setting.sizes))])
    return means.T @ means / len(means)


def _without_global_mean(setting: Features, value: np.ndarray) -> np.ndarray:
    """The class part taken for Sigma_B."""
    mean = setting.features.mean(axis=0)
    return value - np.outer(mean, mean)


def _full_cross_class_rank(setting: Gradients, value: np.ndarray) -> np.ndarray:
    """C (C - 1) for the cross-class part, as if its columns did not sum to zero in every class."""
    return np.array([value[0], len(setting.sizes) * (len(setting.sizes) - 1)])


_SOURCE = orf_543("10/5")

CLAIMS = (
    Claim(
        id="gn-three-level-decomposition",
        title="G splits into class, cross-class, within and same-label parts",
        statement="""For softmax cross-entropy G is the second moment of the gradients of all candidate
        labels, weighted by the network's probabilities. It is exactly the sum of a class part of rank C at
        most, a cross-class part of rank C(C-2) at most, a within-class part and a same-label part, if all
        means are weighted by these probabilities and the cross-class part subtracts the mean of the example's
        class. The mean gradient over labels drawn from the network is zero. Classes may differ in size.""",
        source=f"{_SOURCE} (with weighted means over all candidate labels)",
        quick=Gradients(),
        full=Gradients(sizes=(10, 20, 30, 20, 10), hidden=(16, 16), n_in=8, steps=200),
        wrong={
            "G": (_plain_means, _other_class, _true_labels),
            "ranks": _full_cross_class_rank,
        },
    ),
    Claim(
        id="feature-second-moment-split",
        title="features split into class and within-class parts",
        statement="""The second moment of the features of a layer is the sum of a class part, with every class
        mean weighted by the share of its class, and a within-class part; the class part is the square of the
        global mean plus Sigma_B. In a ReLU network the largest eigenvalue says nothing about classes: its
        eigenvector is nearly the global mean (cosine above 0.9).""",
        source=f"{_SOURCE} (for classes of unequal sizes)",
        quick=Features(hidden=(32, 32)),
        full=Features(sizes=(10, 20, 30, 20, 10), hidden=(128, 128), n_in=8, steps=200),
        wrong={
            "class part": (_equal_classes, _without_global_mean),
            "second moment": _without_global_mean,
            "alignment": lambda setting, value: np.array(0.5),
        },
    ),
    Claim(
        id="backprop-three-level",
        title="backpropagated errors split like the gradients",
        statement="""The second moment of the errors that flow back to any layer, over all candidate labels
        with their probabilities, is exactly the sum of class, cross-class, within-class and same-label parts
        with the weights and weighted means of the gradients' split.""",
        source=f"{_SOURCE} (with weighted means over all candidate labels)",
        quick=Errors(),
        full=Errors(sizes=(10, 20, 30, 20, 10), hidden=(16, 16, 16), n_in=8, steps=200),
        wrong={"layer 1": (_plain_errors, _errors_of_true_labels)},
    ),
)
