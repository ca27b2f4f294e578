"""The Gauss-Newton matrix of a classifier in four parts: class, cross-class, within-class, same label."""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth.measure.loss.candidates import Candidates, Levels, candidates
from finitewidth.measure.loss.operators import SymmetricOperator
from finitewidth.measure.specimen import Specimen, Vector

PARTS = Levels._fields


class Factored(eqx.Module):
    """The matrix F F^T by its factor F."""

    factor: Float[np.ndarray, "size columns"]
    "F: one column for each vector of the sum."

    def operator(self) -> SymmetricOperator:
        """F F^T as an operator of SciPy."""
        return SymmetricOperator(
            lambda v: self.factor @ (self.factor.T @ v), len(self.factor), self.factor.dtype
        )

    def eigenvalues(self) -> Float[np.ndarray, " columns"]:
        """The eigenvalues that may differ from zero, largest first: squared singular values of F."""
        return np.linalg.svd(self.factor, compute_uv=False) ** 2

    @property
    def trace(self) -> float:
        """The sum of all eigenvalues."""
        return float(np.sum(self.factor**2))

    @property
    def rank(self) -> int:
        """The numerical rank of F."""
        return int(np.linalg.matrix_rank(self.factor))


class Attribution(eqx.Module):
    """Where the curvature along some directions v comes from."""

    curvatures: Float[np.ndarray, " directions"]
    "v . H v for unit vectors v; the eigenvalue, where v is an eigenvector of H."
    parts: Float[np.ndarray, "directions 4"]
    "v . P v for the class, cross-class, within-class and same-label part P of G, in this order."
    rest: Float[np.ndarray, " directions"]
    "v . (H - G) v: what the second derivatives of the outputs add. All five sum to the curvature."

    @property
    def shares(self) -> Float[np.ndarray, "directions 5"]:
        """The four parts and the rest, each divided by the curvature."""
        return np.column_stack([self.parts, self.rest]) / self.curvatures[:, None]


class ClassStructure(eqx.Module):
    r"""The exact split $G = G_{class} + G_{cross} + G_{within} + G_{c=c'}$ of a classifier's G.

    With the gradients $g_{ic'}$, weights and means of `Candidates`,

    $$G_{class} = \sum_c w_cg_cg_c^T,\quad G_{cross} = \sum_{c\ne c'}w_{cc'}(g_{cc'}-g_c)(\cdot)^T,\quad
    G_{within} = \sum_{i,\,c'\ne c}w_{ic'}(g_{ic'}-g_{cc'})(\cdot)^T,\quad
    G_{c=c'} = \sum_iw_{ic}g_{ic}g_{ic}^T,$$

    where c is the class of point i. Nothing of size parameters x parameters is ever built.
    """

    specimen: Specimen
    "The classifier, at its weights and on its data."
    candidates: Candidates
    "Weights and means over points and candidate labels."

    def part(self, name: str) -> SymmetricOperator:
        """One of the parts, by its name in `PARTS`: a product with J and one with J^T for each vector."""
        if name not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {name!r}.")
        return self._operator(name)

    def bulk(self) -> SymmetricOperator:
        """The within-class and same-label parts together: what is left without any mean of a class."""
        return self._operator("within_class", "same_label")

    def class_part(self) -> Factored:
        """G_class by its factor: C columns sqrt(w_c) g_c, one product with J^T for each."""
        found = self.candidates
        shares = found.pair_shares[found.labels] * found.point_shares
        columns = [
            self._pulled(np.where((found.labels == c)[:, None], shares, 0.0)) for c in range(found.classes)
        ]
        return Factored(np.stack(columns, axis=1) * np.sqrt(found.class_weights))

    def cross_class_part(self) -> Factored:
        """G_cross by its factor: columns sqrt(w_cc') (g_cc' - g_c), C (C - 1) products with J^T."""
        found, C, columns = self.candidates, self.candidates.classes, []
        for c in range(C):
            pairs = {}
            for k in (k for k in range(C) if k != c):
                chosen = (found.labels == c)[:, None] & (np.arange(C) == k)
                pairs[k] = self._pulled(np.where(chosen, found.point_shares, 0.0))
            mean = sum(found.pair_shares[c, k] * g for k, g in pairs.items())
            columns += [np.sqrt(found.pair_weights[c, k]) * (g - mean) for k, g in pairs.items()]
        return Factored(np.stack(columns, axis=1))

    def attribute(self, directions: Float[np.ndarray, "parameters directions"]) -> Attribution:
        """What every part contributes to the curvature along unit vectors, the columns of a matrix."""
        parts, curvatures = [], []
        for v in directions.T:
            pushed = self._pushed(v)
            parts.append([np.sum(level * pushed) for level in self.candidates.levels(pushed)])
            curvatures.append(v @ self.specimen.hessian_product(v))
        parts, curvatures = np.array(parts), np.array(curvatures, float)
        return Attribution(curvatures, parts, curvatures - parts.sum(axis=1))

    def _operator(self, *names: str) -> SymmetricOperator:
        """The sum of some parts."""
        weights = self.specimen.weights

        def product(v: Vector) -> Vector:
            levels = self.candidates.levels(self._pushed(v))
            return self._pulled(np.sum([getattr(levels, name) for name in names], axis=0))

        return SymmetricOperator(product, weights.size, weights.dtype)

    def _pushed(self, v: Vector) -> Float[np.ndarray, "points classes"]:
        """g_ic' . v."""
        return self.candidates.project(np.asarray(self.specimen.jacobian_product(v), np.float64))

    def _pulled(self, values: Float[np.ndarray, "points classes"]) -> Vector:
        """sum_ic' q_ic' g_ic'."""
        cotangent = self.candidates.gather(values).astype(self.specimen.weights.dtype)
        return self.specimen.transposed_jacobian_product(cotangent)


def class_structure(specimen: Specimen) -> ClassStructure:
    """The split of a classifier's Gauss-Newton matrix into class, cross-class, within and same-label parts.

    Parameters
    ----------
    specimen
        A network with one output per class, whole-number labels and loss="cross_entropy". Every class needs
        samples; they need not be equally many.

    Examples
    --------
    >>> import jax, numpy as np, finitewidth as fw
    >>> from finitewidth.measure import class_structure, specimen
    >>> net = fw.MLP((4,), "relu", n_out=3)
    >>> x, y = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9) % 3
    >>> found = class_structure(specimen(net, x, y, params=net.init(jax.random.key(0), 2)))
    >>> found.class_part().rank, found.cross_class_part().rank
    (3, 3)
    """
    return ClassStructure(specimen, candidates(specimen))
