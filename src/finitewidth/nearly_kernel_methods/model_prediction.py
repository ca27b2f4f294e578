"""A Taylor model as a nearly-kernel machine: from features or derivatives to trained predictions."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray, Labels
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.models.meta_kernel import MetaKernel
from finitewidth.architecture.models.point_model import jacobian_at, outputs_at
from finitewidth.architecture.models.tangent_model import TangentMetaKernel, TangentModel
from finitewidth.architecture.models.taylor_models import FeatureModel
from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, as_columns, nearly_kernel


def nearly_kernel_machine(
    model: FeatureModel | TangentModel,
    x_train: AnyArray,
    y: Labels,
    x_test: AnyArray,
    algorithm: SpectralAlgorithm | None = None,
    *,
    weights: Float[Array, "..."] | None = None,
    ridge: float | int = 0.0,
) -> NearlyKernel:
    """The nearly-kernel prediction of a model trained from given weights.

    Parameters
    ----------
    model
        A `QuadraticModel` or its kin, or a `TangentModel` of any network. Of a cubic model, and of a whole
        network, the first order in epsilon is that of its quadratic part.
    x_train, y, x_test
        Training inputs, labels (one column per output) and test inputs.
    algorithm, ridge
        As in `nearly_kernel`.
    weights
        Where training starts, zero by default; features and meta features are those of the start.
    """
    if not isinstance(model, FeatureModel | TangentModel):
        raise TypeError(
            "model must be a QuadraticModel or its kin, or a TangentModel, got "
            f"{type(model).__name__}; a network is TangentModel(net.apply, params)."
        )
    if isinstance(model, TangentModel):
        return _shared(model, x_train, y, x_test, algorithm, weights, ridge)
    y = as_columns("y", y, len(x_train), np.dtype(float))
    if weights is None:
        parts = _parts(model, x_train, x_test, None)
        return nearly_kernel(*parts, y, algorithm, ridge=ridge)
    if jnp.shape(weights)[0] != y.shape[1]:
        raise ValueError(
            f"weights has {jnp.shape(weights)[0]} rows and y has {y.shape[1]} outputs; they must agree."
        )
    begin = [np.asarray(model(weights, x)) for x in (x_train, x_test)]
    rows = [
        nearly_kernel(
            *_parts(model, x_train, x_test, weights[i]),
            y[:, i],
            algorithm,
            start=(begin[0][:, i], begin[1][:, i]),
            ridge=ridge,
        )
        for i in range(y.shape[1])
    ]
    return NearlyKernel(*(jnp.concatenate(columns, axis=1) for columns in zip(*rows, strict=True)))


Parts = tuple[np.ndarray, np.ndarray, MetaKernel, MetaKernel, MetaKernel]


def _parts(model: FeatureModel, x_train: AnyArray, x_test: AnyArray, w: Array | None) -> Parts:
    """Kernels and meta kernels of one output, dressed by its weights."""
    tables = [model.at(x) for x in (x_train, x_test)]
    phi, phi_test = (np.asarray(t.phi if w is None else t.features(w)) for t in tables)
    triples = ((x_train, x_train, x_train), (x_test, x_train, x_train), (x_train, x_test, x_train))
    train, test, train_test = (model.meta_kernel(*xs, weights=w) for xs in triples)
    return phi @ phi.T, phi_test @ phi.T, train, test, train_test


def _shared(model: TangentModel, x_train, y, x_test, algorithm, weights, ridge) -> NearlyKernel:
    """Outputs that share weights: every output at every input is a point of its own."""
    w = model.zeros() if weights is None else weights
    A, B = model.at(x_train), model.at(x_test)
    z_train, z_test = (np.asarray(outputs_at(points, w)) for points in (A, B))
    y = as_columns("y", y, len(x_train), z_train.dtype)
    if y.shape != z_train.shape:
        raise ValueError(f"y has {y.shape[1]} outputs and the model has {z_train.shape[1]}; they must agree.")
    J_train, J_test = jacobian_at(A, w), jacobian_at(B, w)
    machine = nearly_kernel(
        J_train @ J_train.T,
        J_test @ J_train.T,
        TangentMetaKernel((A, A, A), w),
        TangentMetaKernel((B, A, A), w),
        TangentMetaKernel((A, B, A), w),
        y.ravel(),
        algorithm,
        start=(z_train.ravel(), z_test.ravel()),
        ridge=ridge,
    )
    return NearlyKernel(*(part.reshape(z_test.shape) for part in machine))
