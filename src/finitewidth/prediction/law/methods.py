"""How a law is computed: Bayesian inference, and what a method of finite width must answer.

Settings are pytrees without numbers of their own, so that a law passes through `jax.jit` with them.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

import equinox as eqx

from finitewidth._base.checks import is_number, plain
from finitewidth.algorithms.interface import SpectralAlgorithm

if TYPE_CHECKING:
    from jaxtyping import Array

    from finitewidth.prediction.law.correction import Correction
    from finitewidth.prediction.law.distribution import TrainedDistribution
    from finitewidth.prediction.problem.training_problem import TrainingProblem

Progress = Callable[[float, float], None]


class BayesianInference(eqx.Module):
    """Condition the prior of random networks on the training labels.

    Parameters
    ----------
    noise
        Variance of the observation noise.
    width
        "infinite" conditions the Gaussian process of infinitely wide networks. "finite" uses the widths of
        the network, in a mixture over one random scale per hidden layer: exact for linear networks with one
        output, otherwise good for the spread and rough for the mean.
    """

    noise: float | int = eqx.field(static=True, converter=plain, default=0.0)
    width: Literal["infinite", "finite"] = eqx.field(static=True, default="infinite")

    def __check_init__(self):
        if not (is_number(self.noise) and 0 <= self.noise < math.inf):
            raise ValueError(f"noise must be a variance, zero or more, got {self.noise!r}.")
        if self.width not in ("infinite", "finite"):
            raise ValueError(f'width must be "infinite" or "finite", got {self.width!r}.')


class Method(eqx.Module):
    """A way to compute what finite width adds to the law of trained networks.

    `expands` says whether it computes the first order in 1/width, and so belongs to order=1; other methods
    give the law at the network's width and are used whenever they are named. `in_roots` says that it expands
    in 1/sqrt(width), and so belongs to order="1/2"; `followed`, that JAX can differentiate through it.
    """

    expands: ClassVar[bool] = True
    in_roots: ClassVar[bool] = False
    followed: ClassVar[bool] = False

    @abstractmethod
    def correct(
        self,
        problem: "TrainingProblem",
        algorithm: SpectralAlgorithm,
        infinite: "TrainedDistribution",
        *,
        ridge: "float | Array" = 0.0,
        progress: Progress | None = None,
    ) -> "Correction":
        """What to add to the infinite-width law of this problem at the network's own width.

        Parameters
        ----------
        problem
            Network, data and kernels.
        algorithm, ridge
            How networks are trained.
        infinite
            Their law at infinite width.
        progress
            Called now and then with the fraction of the work done and the relative error so far.
        """
