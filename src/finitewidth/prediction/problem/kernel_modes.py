r"""The eigenvectors of the training NTK, found once for everything that is a filter on its spectrum.

With $\Theta = V w V^T$ and $\tilde K = V^T K V$, networks that are trained to the end under a ridge r,
without point i, miss its label by $[Ay]_i/A_{ii}$ on average, with variance $[AKA]_{ii}/A_{ii}^2$, where
$A_{ii} = \sum_j V_{ij}^2 g_j$, $[AKA]_{ii} = \sum_{jk} V_{ij} g_j \tilde K_{jk} g_k V_{ik}$ and
$g = 1/(w+r)$: another ridge takes one product, not another factorisation.
"""

from collections.abc import Iterable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.linalg.congruence import congruence, congruence_diagonal
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.problem.leave_one_out import LeftOut
from finitewidth.statistics.wide.kernels import Kernels, kernels


def missed_labels(
    spectrum: Spectrum, ridge: float | int, y: Float[AnyArray, "train out"]
) -> tuple[Float[np.ndarray, "train out"], Float[np.ndarray, " train"]]:
    r"""$[Ay]_i/A_{ii}$, by which a label is missed when its point is left out, and $A_{ii}$."""
    V, y, gain = np.asarray(spectrum.eigenvectors), np.asarray(y), spectrum.inverse(ridge)
    diagonal = np.einsum("ij,ij,j->i", V, V, gain)
    return (V @ (gain[:, None] * (V.T @ y))) / diagonal[:, None], diagonal


class PointsInModes(eqx.Module):
    """Test points in the basis of the training NTK's eigenvectors.

    Attributes
    ----------
    reach, nngp
        NTK and NNGP kernel of test and training points, times the eigenvectors, (test, train).
    prior, own
        NNGP kernel and NTK of every test point with itself, (test,).
    """

    reach: Float[np.ndarray, "test train"]
    nngp: Float[np.ndarray, "test train"]
    prior: Float[np.ndarray, " test"]
    own: Float[np.ndarray, " test"]


class KernelModes(eqx.Module):
    """Spectrum of the training NTK, and the NNGP kernel in the basis of its eigenvectors, (train, train).

    `test` has the test points in the same basis, where that was asked for.
    """

    spectrum: Spectrum
    nngp: Float[AnyArray, "train train"]
    test: PointsInModes | None = None

    @classmethod
    def of(cls, train: Kernels) -> "KernelModes":
        """Diagonalise the NTK; beside the kernels and the result this holds one matrix more for a while."""
        spectrum = Spectrum.by_lapack(train.ntk)
        return cls(spectrum, congruence(spectrum.eigenvectors, train.nngp))

    @classmethod
    def of_inputs(cls, net: Layer, x: Float[Array, "train ..."]) -> "KernelModes":
        """Compute the kernels and keep none of them: with LAPACK's scratch four matrices at the most."""
        nngp, ntk = jax.block_until_ready(kernels(net, x))
        # Its rows are its columns, and LAPACK works by columns.
        matrix = np.array(np.asarray(ntk).T, copy=True)
        del ntk
        spectrum = Spectrum.in_place(matrix)
        return cls(spectrum, congruence(spectrum.eigenvectors, nngp))

    def reaching(self, strips: Iterable[tuple[slice, Kernels]], own: Kernels) -> "KernelModes":
        """These modes with test points: kernels (test, train) of some of them at a time, and their own."""
        V, prior = np.asarray(self.spectrum.eigenvectors), np.asarray(own.nngp)
        reach, nngp = (np.empty((len(prior), len(V)), V.dtype) for _ in range(2))
        for rows, part in strips:
            np.matmul(np.asarray(part.ntk), V, out=reach[rows])
            np.matmul(np.asarray(part.nngp), V, out=nngp[rows])
        return KernelModes(self.spectrum, self.nngp, PointsInModes(reach, nngp, prior, np.asarray(own.ntk)))

    def left_out(self, ridge: float | int, y: Float[AnyArray, "train out"]) -> LeftOut:
        """Predictions at each training point by networks trained to the end without it."""
        missed, diagonal = missed_labels(self.spectrum, ridge, y)
        V, gain = np.asarray(self.spectrum.eigenvectors), self.spectrum.inverse(ridge)
        variance = congruence_diagonal(V, np.asarray(self.nngp), gain) / diagonal**2
        return LeftOut(np.asarray(y) - missed, variance)

    def cumulative_power(
        self, y: Float[AnyArray, "train out"]
    ) -> tuple[Float[np.ndarray, " modes"], Float[np.ndarray, " modes"]]:
        """Eigenvalues over the number of points, in falling order, and the share of y in the modes so far.

        Modes at the level of rounding are left out.
        """
        w, y = np.asarray(self.spectrum.eigenvalues), np.asarray(y)
        kept = w > len(w) * np.finfo(w.dtype).eps * w[-1]
        power = np.sum((np.asarray(self.spectrum.eigenvectors).T @ y) ** 2, axis=1)
        return w[kept][::-1] / len(w), np.cumsum(power[kept][::-1]) / np.sum(y**2)
