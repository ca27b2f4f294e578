"""A network, its training set and its test points, with the kernels between them."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.architecture import Layer
from finitewidth.architecture.networks import refuse_random_passes
from finitewidth.linalg.cholesky import SingularKernelError, suggested_ridge
from finitewidth.prediction.data import as_targets, first_duplicate, warn_of_few_rows
from finitewidth.statistics.inputs import ArrayLike, as_inputs, check_same_shape
from finitewidth.statistics.kernels import Kernels, kernel_blocks, kernels

# Of so few points, all kernels are blocks of one matrix: compiling takes longer than anything else.
_FEW = 512


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
    """

    net: Layer
    x_train: Float[Array, "train ..."]
    y: Float[Array, "train out"]
    x_test: Float[Array, "test ..."]
    kernels: ProblemKernels | None = None

    @classmethod
    def of(cls, net: Layer, x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike) -> "TrainingProblem":
        """Check the data and compute the kernels."""
        _refuse_masks(net)
        x_train = as_inputs("x_train", x_train, net)
        x_test = as_inputs("x_test", x_test, net).astype(x_train.dtype)
        check_same_shape("x_train", x_train, "x_test", x_test)
        y = as_targets(y_train, len(x_train), x_train.dtype)
        warn_of_few_rows(y)
        return cls(net, x_train, y, x_test).computed()

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
        return dataclasses.replace(self, x_test=x_test, kernels=jax.block_until_ready(every))

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

    def refuse_duplicates(
        self, which: str, kernel: Float[Array, "train train"], remedy: str = "ridge"
    ) -> None:
        """Say which training points are equal, and what helps; rounding may hide it from the kernel."""
        pair = first_duplicate(self.x_train)
        if pair is not None:
            raise SingularKernelError(
                f"{which} is singular: training points {pair[0]} and {pair[1]} are equal. "
                f"Remove one, or pass {remedy} > 0, say {suggested_ridge(kernel):.1g}."
            )


def _refuse_masks(net: Layer) -> None:
    if isinstance(net, Layer):
        refuse_random_passes(net, "the law of networks trained with masks drawn in every step is not known")
