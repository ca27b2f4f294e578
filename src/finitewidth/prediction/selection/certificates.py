r"""Guarantees before training: is the kernel positive definite, how fast does descent converge, how wide?

On a fixed kernel with eigenvalues between $\lambda_0$ and $\lambda_{max}$ a step $\eta$ shrinks the
residual at least by $\max(|1-\eta\lambda_0|, |1-\eta\lambda_{max}|)$, so the loss falls geometrically.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.prediction.problem.training_problem import TrainingProblem

Number = float | int


class ConvergenceCertificate(eqx.Module):
    """Extreme eigenvalues of a training kernel and what follows from them.

    `uncertainty` bounds the rounding error of the eigenvalues.
    """

    smallest: Number = eqx.field(static=True)
    largest: Number = eqx.field(static=True)
    uncertainty: Number = eqx.field(static=True)

    @property
    def positive_definite(self) -> bool:
        """Whether the smallest eigenvalue is positive beyond rounding."""
        return self.smallest > self.uncertainty

    @property
    def condition_number(self) -> Number:
        """Largest over smallest eigenvalue."""
        return self.largest / self.smallest if self.positive_definite else math.inf

    @property
    def largest_step(self) -> Number:
        """Gradient descent converges for every eta below this."""
        return 2 / self.largest

    @property
    def best_step(self) -> Number:
        """The eta with the fastest guaranteed convergence."""
        return 2 / (self.largest + max(self.smallest, 0.0))

    def contraction(self, eta: Number) -> Number:
        """Factor by which one step shrinks the residual, at least."""
        smallest = self.smallest if self.positive_definite else 0.0
        return max(abs(1 - eta * smallest), abs(1 - eta * self.largest))

    def steps(self, initial_loss: Number, target_loss: Number, eta: Number | None = None) -> Number:
        """Number of steps after which the loss is at most the target, whatever the labels."""
        if not target_loss > 0:
            raise ValueError(f"target_loss must be positive, got {target_loss}.")
        if initial_loss <= target_loss:
            return 0
        factor = self.contraction(self.best_step if eta is None else eta)
        if factor >= 1:
            return math.inf
        if factor == 0:
            return 1
        return math.ceil(math.log(target_loss / initial_loss) / (2 * math.log(factor)))


class LazyTraining(eqx.Module):
    r"""The lazy-training theorem for one hidden layer.

    For $z = n^{-1/2}\sum_k v_k\sigma(w_k\cdot x)$ with $|v_k|\le1$ fixed, $|\sigma'|,|\sigma''|\le1$,
    unit inputs, and loss $L = |z-y|^2/2m$ on m points: if the tangent kernel of the hidden weights is at
    least $\lambda_0$ at the start and the width is at least `width`, it stays above $\lambda_0/2$ during
    gradient flow and the loss falls as $e^{-\lambda_0t/m}$.
    """

    points: int = eqx.field(static=True)
    smallest: Number = eqx.field(static=True)
    initial_loss: Number = eqx.field(static=True)

    @property
    def width(self) -> Number:
        """Sufficient width, 128 m^4 L(0) / lambda_0^4."""
        return 128 * self.points**4 * self.initial_loss / self.smallest**4

    @property
    def allowed_movement(self) -> Number:
        """How far each hidden weight may move with the kernel still above half its start."""
        return self.smallest / (4 * self.points)

    def movement(self, width: Number) -> Number:
        """Bound on how far each hidden weight moves, at a given width."""
        return 2 * math.sqrt(2 * self.initial_loss / width) * self.points / self.smallest

    def kernel_change(self, movement: Number) -> Number:
        """Bound on the change of the kernel in operator norm when no weight moves further."""
        return 2 * self.points * movement

    def loss(self, time: Float[AnyArray, " times"]) -> Float[np.ndarray, " times"]:
        """Bound on the loss under gradient flow."""
        return self.initial_loss * np.exp(-self.smallest * np.asarray(time) / self.points)


def convergence_certificate(
    kernel: Float[AnyArray, "train train"], accuracy: Number = 0.0
) -> ConvergenceCertificate:
    """Extreme eigenvalues of a training kernel, and how far they may be off.

    Parameters
    ----------
    kernel
        Symmetric matrix over the training points.
    accuracy
        Error of the entries relative to the largest, on top of rounding: the `tolerance` with which `kernels`
        summed a series, zero for activations in closed form.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.prediction.selection.certificates import convergence_certificate
    >>> x = jax.random.normal(jax.random.key(0), (10, 4))
    >>> certificate = convergence_certificate(fw.kernels(fw.MLP((1, 1), "relu"), x).ntk)
    >>> certificate.positive_definite
    True
    """
    eigenvalues = np.linalg.eigvalsh(np.asarray(kernel))
    rounding = np.finfo(eigenvalues.dtype).eps * np.abs(eigenvalues).max()
    uncertainty = len(eigenvalues) * (rounding + accuracy * np.abs(np.asarray(kernel)).max())
    return ConvergenceCertificate(float(eigenvalues[0]), float(eigenvalues[-1]), float(uncertainty))


def steps_to_loss(
    problem: TrainingProblem, target: Number, algorithm: GradientDescent | None = None, most: int = 10**9
) -> Number:
    """Smallest number of steps after which the expected training loss per point is at most `target`.

    Exact at infinite width, where the certificate only bounds it: easy modes are learnt long before
    the hardest. Infinite when `most` steps are not enough.
    """
    if not target > 0:
        raise ValueError(f"target must be positive, got {target}.")
    spectrum = Spectrum.of(problem.train.ntk)
    algorithm = (algorithm or GradientDescent()).resolved(float(spectrum.eigenvalues[-1]))
    V, (rows, out) = spectrum.eigenvectors, problem.y.shape
    prior = jnp.sum(V * (problem.train.nngp @ V), axis=0)
    power = jnp.sum((V.T @ problem.y) ** 2, axis=1) + out * prior

    def loss(steps: int) -> float:
        return float(jnp.sum(algorithm.stopped(steps).residual(spectrum.eigenvalues) ** 2 * power)) / (
            2 * rows
        )

    if loss(0) <= target:
        return 0
    steps = first_step(lambda t: loss(t) <= target, most)
    return steps if loss(steps) <= target else math.inf


def first_step(enough: Callable[[int], bool], most: int) -> int:
    """The first positive number at which a condition that stays true is true, or `most`."""
    high = 1
    while not enough(high):
        if high >= most:
            return most
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
