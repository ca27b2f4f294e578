r"""Meta kernels $\mu_{012} = \epsilon\,\phi_1^T\psi_0\,\phi_2$, known by what they do to matrices.

The first index is the point whose meta features $\psi$ enter; the last two, in which the tensor is
symmetric, are points whose features $\phi$ do. No prediction needs the tensor itself, only three
contractions of it, so that a meta kernel may be an array, a product of features, or anything that can
compute them.
"""

from abc import abstractmethod

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray

_BLOCK_BYTES = 1 << 26
# A symmetric tensor that was summed over thousands of features may be this many eps away from it.
_ROUNDING = 1e4


class MetaKernel(eqx.Module):
    """A tensor of three points, by its contractions; matrices carry a leading axis of outputs."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Number of meta-feature points and of both kinds of feature points."""

    @abstractmethod
    def over_features(self, C: Float[AnyArray, "out n1 n2"]) -> Float[np.ndarray, "n0 out"]:
        r"""$\sum_{12}\mu_{012}C_{12}$: the meta-feature point stays free."""

    @abstractmethod
    def over_meta(self, C: Float[AnyArray, "out n0 n2"]) -> Float[np.ndarray, "n1 out"]:
        r"""$\sum_{02}\mu_{012}C_{02}$: a feature point stays free."""

    @abstractmethod
    def along(self, q: Float[AnyArray, "n2 out"]) -> Float[np.ndarray, "out n0 n1"]:
        r"""$\sum_2\mu_{012}q_2$: a matrix between meta-feature and feature points."""

    def dense(self) -> Float[np.ndarray, "n0 n1 n2"]:
        """The whole tensor, for few points."""
        return np.moveaxis(self.along(np.eye(self.shape[2])), 0, -1)


class DenseMetaKernel(MetaKernel):
    """A meta kernel as an array, in memory or mapped from a file; read in blocks, never copied whole."""

    array: Float[AnyArray, "n0 n1 n2"]
    name: str = eqx.field(static=True, default="the meta kernel")

    @property
    def shape(self) -> tuple[int, int, int]:
        n0, n1, n2 = self.array.shape
        return n0, n1, n2

    def over_features(self, C: Float[AnyArray, "out n1 n2"]) -> Float[np.ndarray, "n0 out"]:
        _, n1, n2 = self.shape
        probes = np.asarray(C).reshape(len(C), -1).T
        if n1 == n2:
            probes = np.column_stack([probes, _antisymmetric_probe(n1, probes.dtype)])
        result = np.concatenate([block.reshape(-1, n1 * n2) @ probes for _, block in self._blocks()])
        if n1 == n2:
            self._refuse_asymmetry(result[:, -1])
            result = result[:, :-1]
        return self._finite(result)

    def over_meta(self, C: Float[AnyArray, "out n0 n2"]) -> Float[np.ndarray, "n1 out"]:
        columns = np.moveaxis(np.asarray(C), 0, -1)
        parts = (np.matmul(block, columns[rows]).sum(axis=0) for rows, block in self._blocks())
        return self._finite(sum(parts, np.zeros((self.shape[1], len(C)), columns.dtype)))

    def along(self, q: Float[AnyArray, "n2 out"]) -> Float[np.ndarray, "out n0 n1"]:
        q = np.asarray(q)
        result = np.concatenate([np.matmul(block, q) for _, block in self._blocks()])
        return self._finite(np.moveaxis(result, -1, 0))

    def _blocks(self):
        n0, n1, n2 = self.shape
        size = max(1, _BLOCK_BYTES // (n1 * n2 * self.array.dtype.itemsize))
        for start in range(0, n0, size):
            rows = slice(start, start + size)
            yield rows, np.asarray(self.array[rows])

    def _refuse_asymmetry(self, probed: Float[np.ndarray, " n0"]) -> None:
        worst = int(np.argmax(np.abs(probed)))
        block = np.asarray(self.array[worst])
        rounding = _ROUNDING * np.finfo(block.dtype).eps * np.linalg.norm(block)
        if np.abs(probed[worst]) > rounding:
            i, j = np.unravel_index(np.argmax(np.abs(block - block.T)), block.shape)
            raise ValueError(
                f"{self.name} must be symmetric in its last two indices, but [{worst}, {i}, {j}] = "
                f"{block[i, j]:.4g} and [{worst}, {j}, {i}] = {block[j, i]:.4g}: symmetrise psi."
            )

    def _finite(self, result: np.ndarray) -> np.ndarray:
        if not np.isfinite(result).all():
            raise ValueError(f"{self.name} holds NaN or infinite values.")
        return result


class FeatureMetaKernel(MetaKernel):
    """A meta kernel from features and meta features; larger than memory it is never built."""

    psi: Float[AnyArray, "n0 features features"]
    phi1: Float[AnyArray, "n1 features"]
    phi2: Float[AnyArray, "n2 features"]
    epsilon: float | Array = 1.0

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.psi), len(self.phi1), len(self.phi2)

    def over_features(self, C: Float[AnyArray, "out n1 n2"]) -> Float[np.ndarray, "n0 out"]:
        psi, phi1, phi2 = self._arrays()
        weights = phi1.T @ np.asarray(C) @ phi2
        return self._scaled(psi.reshape(len(psi), -1) @ weights.reshape(len(C), -1).T)

    def over_meta(self, C: Float[AnyArray, "out n0 n2"]) -> Float[np.ndarray, "n1 out"]:
        psi, phi1, phi2 = self._arrays()
        weights = np.moveaxis(np.asarray(C) @ phi2, 0, -1)
        return self._scaled(phi1 @ np.matmul(psi, weights).sum(axis=0))

    def along(self, q: Float[AnyArray, "n2 out"]) -> Float[np.ndarray, "out n0 n1"]:
        psi, phi1, phi2 = self._arrays()
        moved = np.matmul(psi, phi2.T @ np.asarray(q))
        return self._scaled(np.moveaxis(moved, -1, 0) @ phi1.T)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.asarray(self.psi), np.asarray(self.phi1), np.asarray(self.phi2)

    def _scaled(self, result: np.ndarray) -> np.ndarray:
        return np.asarray(self.epsilon, result.dtype) * result


class ScaledMetaKernel(MetaKernel):
    r"""A meta kernel times a number, such as another $\epsilon$."""

    kernel: MetaKernel
    factor: float

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.kernel.shape

    def over_features(self, C: Float[AnyArray, "out n1 n2"]) -> Float[np.ndarray, "n0 out"]:
        return self.factor * self.kernel.over_features(C)

    def over_meta(self, C: Float[AnyArray, "out n0 n2"]) -> Float[np.ndarray, "n1 out"]:
        return self.factor * self.kernel.over_meta(C)

    def along(self, q: Float[AnyArray, "n2 out"]) -> Float[np.ndarray, "out n0 n1"]:
        return self.factor * self.kernel.along(q)


def as_meta_kernel(name: str, mu: MetaKernel | AnyArray, shape: tuple[int, int, int]) -> MetaKernel:
    """A meta kernel of the expected shape, from one or from an array."""
    kernel = mu if isinstance(mu, MetaKernel) else DenseMetaKernel(_as_tensor(name, mu), name)
    if kernel.shape != shape:
        raise ValueError(f"{name} has shape {kernel.shape}; with the kernels given it must be {shape}.")
    return kernel


def factors(C: Float[np.ndarray, "n m"]) -> tuple[Float[np.ndarray, "rank n"], Float[np.ndarray, "rank m"]]:
    """Vectors whose products add up to a matrix, as few as its precision allows.

    Projectors contracted with labels are nearly of low rank, so that a few dozen do for any number of points.
    """
    U, s, V = np.linalg.svd(C, full_matrices=False)
    kept = max(1, int(np.sum(s > np.finfo(C.dtype).eps * s[0])))
    return (U[:, :kept] * s[:kept]).T, V[:kept]


def _as_tensor(name: str, mu: AnyArray) -> AnyArray:
    tensor = mu if isinstance(mu, np.ndarray | Array) else np.asarray(mu, float)
    if tensor.ndim != 3:
        raise ValueError(f"{name} must be an array of three points, got shape {tensor.shape}.")
    return tensor if np.issubdtype(tensor.dtype, np.floating) else np.asarray(tensor, float)


def _antisymmetric_probe(n: int, dtype: np.dtype) -> Float[np.ndarray, " n_squared"]:
    """A matrix of unit size that every symmetric matrix annihilates."""
    u, v = np.random.default_rng(0).normal(size=(2, n))
    probe = np.outer(u, v) - np.outer(v, u)
    return (probe / max(np.linalg.norm(probe), 1e-300)).astype(dtype).ravel()
