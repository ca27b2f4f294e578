"""Models as functions of their weights: what is trained, before any theory of the training."""

from finitewidth.architecture.models.meta_kernel import (
    DenseMetaKernel,
    FeatureMetaKernel,
    MetaKernel,
    ScaledMetaKernel,
)
from finitewidth.architecture.models.point_model import PointModel
from finitewidth.architecture.models.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.architecture.models.tangent_model import TangentMetaKernel, TangentModel
from finitewidth.architecture.models.taylor_models import (
    CubicModel,
    FeatureModel,
    FeatureTable,
    LinearModel,
    QuadraticModel,
)

__all__ = [
    "CubicModel", "DenseMetaKernel", "FeatureMetaKernel", "FeatureModel", "FeatureTable", "LinearModel",
    "MetaKernel", "NeuronMetaKernel", "PointModel", "QuadraticModel", "RandomNeurons", "ScaledMetaKernel",
    "TangentMetaKernel", "TangentModel",
]  # fmt: skip
