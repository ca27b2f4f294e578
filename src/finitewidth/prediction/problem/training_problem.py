"""A network, its training set and its test points, with the kernels between them."""

import dataclasses
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.either import holds_tracer, refuse_traced
from finitewidth._base.linalg.cholesky import SingularKernelError, suggested_ridge
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import refuse_random_passes
from finitewidth.prediction.problem.data import as_targets, first_duplicate, warn_of_few_rows
from finitewidth.prediction.problem.kernel_modes import KernelModes
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs, check_same_shape
from finitewidth.statistics.wide.kernels import (
    Kernels,
    kernel_blocks,
    kernel_strips,
    kernels,
    own_outputs,
    refuse_overflow,
)

# Of so few points, all kernels are blocks of one matrix: compiling takes longer than anything else.
_FEW = 512


def checked_data(
    net: Layer, x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike
) -> tuple[Float[Array, "train ..."], Float[Array, "train out"], Float[Array, "test ..."]]:
    """Training inputs, targets and test inputs in one precision; one clear sentence when they do not fit."""
    _refuse_masks(net)
    x_train = as_inputs("x_train", x_train, net)
    x_test = as_inputs("x_test", x_test, net).astype(x_train.dtype)
    check_same_shape("x_train", x_train, "x_test", x_test)
    y = as_targets(y_train, len(x_train), x_train.dtype)
    warn_of_few_rows(y)
    return x_train, y, x_test


class ProblemKernels(NamedTuple):
    """Kernels (train, train), (test, train) and (test, test) at infinite width."""

    train: Kernels
    test_train: Kernels
    test: Kernels


class TrainingProblem(eqx.Module):
    """A network and its data, with all kernels that a prediction needs.

    Compute it once to ask for several predictions, loss curves or certificates.

    Attributes
    ----------
    net
        The network: its layers, initialisation and learning-rate tensor.
    x_train, y
        Training inputs (train, features), or (train, *positions, channels), and targets (train, out).
    x_test
        Test inputs, of the same shape.
    kernels
        All three pairs of kernels; None in a problem read from a file, which holds no kernels. They are then
        computed whenever they are asked for: `computed()` gives a problem that keeps them.
    modes
        Eigenvectors of the training NTK, in a problem that `diagonalised()` returned: ridges, loss curves,
        stops and predictions are then filters on this one spectrum. One that `in_modes` returned has those
        of its test points too.
    """

    net: Layer
    x_train: Float[Array, "train ..."]
    y: Float[Array, "train out"]
    x_test: Float[Array, "test ..."]
    kernels: ProblemKernels | None = None
    modes: KernelModes | None = None

    @classmethod
    def of(cls, net: Layer, x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike) -> "TrainingProblem":
        """Check the data and compute the kernels."""
        x_train, y, x_test = checked_data(net, x_train, y_train, x_test)
        return cls(net, x_train, y, x_test).computed()

    @classmethod
    def in_modes(
        cls, net: Layer, x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike
    ) -> "TrainingProblem":
        """Check the data and keep the modes of the kernels in place of the kernels.

        Ridges, loss curves, stops and variances need no more. Between test points there is nothing but their
        own variances, so that many of them cost little.
        """
        refuse_traced("TrainingProblem.in_modes", net, x_train, x_test)
        x_train, y, x_test = checked_data(net, x_train, y_train, x_test)
        if len(x_train) + len(x_test) <= _FEW:
            train, test_train, test = jax.block_until_ready(kernel_blocks(net, x_train, x_test))
            modes = KernelModes.of(train).reaching([(slice(None), test_train)], Kernels(*map(jnp.diag, test)))
        else:
            modes = KernelModes.of_inputs(net, x_train)
            strips = kernel_strips(net, x_test, x_train)
            modes = modes.reaching(strips, own_outputs(net, x_test))
        return cls(net, x_train, y, x_test, modes=modes)

    @classmethod
    def on_training_points(cls, net: Layer, x: ArrayLike, y: ArrayLike) -> "TrainingProblem":
        """A problem with its training points as test points, whose kernels are computed once."""
        _refuse_masks(net)
        x, every = jnp.asarray(x), kernels(net, x)
        return cls(net, x, jnp.asarray(y), x, ProblemKernels(every, every, every))

    def computed(self) -> "TrainingProblem":
        """This problem with its kernels."""
        if self.kernels is not None:
            return self
        return self._at(self.x_test, train=None)

    def diagonalised(self) -> "TrainingProblem":
        """This problem with the modes of its training kernel."""
        if self.modes is not None:
            return self
        refuse_traced("TrainingProblem.diagonalised", self)
        return dataclasses.replace(self, modes=KernelModes.of(self.train))

    def spectrum(self) -> Spectrum:
        """Spectrum of the training NTK: the one at hand, or a new one."""
        return Spectrum.by_lapack(self.train.ntk) if self.modes is None else self.modes.spectrum

    def reach(self, spectrum: Spectrum) -> Float[np.ndarray, "test train"]:
        """NTK of test and training points in the basis of the training kernel's eigenvectors."""
        if self.modes is not None and self.modes.test is not None:
            return self.modes.test.reach
        return np.asarray(self.test_train.ntk) @ np.asarray(spectrum.eigenvectors)

    def at(self, x_test: Float[Array, "test ..."]) -> "TrainingProblem":
        """The same training with other test points; the training kernels are kept."""
        return self._at(x_test, self.train)

    def _at(self, x_test: Float[Array, "test ..."], train: Kernels | None) -> "TrainingProblem":
        net, x_train = self.net, self.x_train
        if len(x_train) + len(x_test) <= _FEW:
            blocks = kernel_blocks(net, x_train, x_test)
            every = ProblemKernels(train or blocks[0], *blocks[1:])
        else:
            train = train or kernels(net, x_train)
            every = ProblemKernels(train, kernels(net, x_test, x_train), kernels(net, x_test))
        # What follows is LAPACK; its threads and those of a kernel still under way would fight for the cores.
        modes = None if self.modes is None else dataclasses.replace(self.modes, test=None)
        refuse_overflow(*jax.block_until_ready(every))
        return dataclasses.replace(self, x_test=x_test, kernels=every, modes=modes)

    @property
    def train(self) -> Kernels:
        """Kernels of the training points, (train, train)."""
        return self.kernels_held.train

    @property
    def test_train(self) -> Kernels:
        """Kernels between test and training points, (test, train)."""
        return self.kernels_held.test_train

    @property
    def test(self) -> Kernels:
        """Kernels of the test points, (test, test)."""
        return self.kernels_held.test

    @property
    def kernels_held(self) -> ProblemKernels:
        """All three pairs of kernels, computed now where they are missing."""
        every = self.computed().kernels
        assert every is not None
        return every

    def refuse_duplicates(self, governed: Literal["ntk", "nngp"] = "ntk", remedy: str = "ridge") -> None:
        """Say which training points are equal, and what helps; rounding may hide it from the kernel."""
        pair = None if holds_tracer(self.x_train) else first_duplicate(self.x_train)
        if pair is not None:
            which = "the training NTK" if governed == "ntk" else "the training NNGP kernel"
            raise SingularKernelError(
                f"{which} is singular: training points {pair[0]} and {pair[1]} are equal. Remove one, or "
                f"pass {remedy} > 0, say {suggested_ridge(getattr(self.train, governed)):.1g}."
            )


def _refuse_masks(net: Layer) -> None:
    if isinstance(net, Layer):
        refuse_random_passes(net, "the law of networks trained with masks drawn in every step is not known")
