r"""What a learning algorithm is: a filter on the spectrum of the training kernel.

On a linear model each eigenmode of the kernel is learnt by itself. An algorithm leaves the fraction
$r(\lambda)$ of the residual in a mode with eigenvalue $\lambda$. What it has learnt, per unit of kernel, is
the gain $(1-r(\lambda))/\lambda$.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, NoReturn

import equinox as eqx
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth.algorithms.clocks import Clock

if TYPE_CHECKING:
    from finitewidth.algorithms.gradient_descent import GradientDescent

Eigenvalues = Float[Array, "..."]
_WITH_PATH = "GradientDescent or GradientFlow"


class SpectralAlgorithm(eqx.Module):
    """A training algorithm that acts on each eigenmode of the kernel separately.

    A new algorithm defines `gain`, which is all that `predict(order=0)` needs, and of the other methods those
    that it can answer. A method that it does not define refuses in one sentence.
    """

    @abstractmethod
    def gain(self, eigenvalues: Float[AnyArray, " n"]) -> Float[AnyArray, " n"]:
        """(1 - residual) / eigenvalue, with its limit at zero eigenvalues; NumPy arrays stay NumPy arrays."""

    def residual(self, eigenvalues: Float[AnyArray, " n"]) -> Float[AnyArray, " n"]:
        """Fraction of the residual that is left in each mode; NumPy arrays stay NumPy arrays."""
        return 1 - eigenvalues * self.gain(eigenvalues)

    @property
    def converged(self) -> bool:
        """Whether it runs until nothing of the residual is left: the gain is then 1 / eigenvalue."""
        return False

    @property
    def can_diverge(self) -> bool:
        """Whether `resolved` refuses kernels with too large an eigenvalue."""
        return False

    def resolved(self, largest: float | Array) -> "SpectralAlgorithm":
        """The same algorithm with every choice made, given the largest eigenvalue."""
        return self

    def stopped(self, at: float | int) -> "SpectralAlgorithm":
        """The same algorithm after a number of steps, or at a time: for loss curves."""
        self._refuse("{} has no trajectory", "stopped", _WITH_PATH)

    def clock(self) -> Clock:
        """How residuals decay in time, all choices made: for the corrections in 1/width."""
        self._refuse("order=1 depends on the path of training, which {} does not have", "clock", _WITH_PATH)

    def projectors(self, l1: Eigenvalues, l2: Eigenvalues) -> tuple[Array, Array]:
        r"""$Z_A$ and $Z_B$ of pairs of modes of the nearly-kernel formula, all choices made."""
        self._refuse("the nearly-kernel formula is not known for {}", "projectors", "DirectOptimization")

    def second_order(self) -> Literal["row-space", "gauss-newton"]:
        r"""The path of a trained quadratic model whose second order in $\epsilon$ is known."""
        self._refuse("order=2 is known for direct optimisation only, not for {}", "second_order", "order=1")

    def descent(self, largest: float) -> "GradientDescent":
        """The gradient descent that real networks do in its place, all choices made: for `verify`."""
        self._refuse("verify trains by gradient descent; it cannot follow {}", "descent", "GradientDescent")

    def _refuse(self, sentence: str, method: str, instead: str) -> NoReturn:
        sentence = sentence.format(type(self).__name__)
        raise ValueError(f"{sentence} (it defines no `{method}`): use {instead}.")


def check_algorithm(algorithm: object, *others: str) -> None:
    """Refuse what is not a learning algorithm; `others` are further ones to name."""
    if not isinstance(algorithm, SpectralAlgorithm):
        known = ["GradientDescent()", "GradientFlow()", "DirectOptimization()", *others]
        raise ValueError(f"algorithm must be {', '.join(known[:-1])} or {known[-1]}, got {algorithm!r}.")
