r"""A hidden layer as a measure over neurons, and its gradient flow.

A network $h(x)=\int\phi(\theta,x)\,d\mu(\theta)$ is linear in the measure $\mu$ of its neurons; m neurons
of equal mass are $\frac1m\sum_j\phi(\theta_j,x)$. The risk $R(\mu)$ is a convex loss of the outputs. Its
first variation $V(\theta)=\sum_i\frac{\partial R}{\partial h_i}\phi(\theta,x_i)$ is the potential in which
neurons move: gradient descent on the weights with the rate $m\tau$ is $\theta_j'=\theta_j-\tau\nabla
V(\theta_j)$.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers, check_key, check_positive, check_whole
from finitewidth.architecture.activations import Activation, as_activation

# A neuron theta at inputs (points, features): one number for each point.
Neuron = Callable[[Array, Array], Array]
# Outputs and labels to one number.
OutputLoss = Callable[[Array, Array], Array]
# A product of quadrature rules has at most so many nodes.
_MOST_NODES = 200_000


def half_mean_square(outputs: Array, labels: Array) -> Array:
    """Half the mean of squared errors."""
    return 0.5 * jnp.mean((outputs - labels) ** 2)


class OneHidden(eqx.Module):
    r"""The neuron $a\,\sigma(w\cdot x+b)$ with $\theta=(w,b,a)$."""

    activation: Activation = eqx.field(static=True)

    def __call__(self, theta: Array, x: Array) -> Array:
        return theta[-1] * self.activation(x @ theta[:-2] + theta[-2])


class NeuronPopulation(eqx.Module):
    """Neurons with their masses: a network of any finite width, or the nodes of an infinite one.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from finitewidth.course.mean_field.theory import neuron_population
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> start = neuron_population(jax.random.normal(jax.random.key(0), (50, 3)), "tanh")
    >>> path = start.descend(x, np.sin(3 * x[:, 0]), tau=0.2, steps=500)
    >>> bool(path.risks[-1] < 0.1 * path.risks[0])
    True
    """

    neurons: Float[Array, "m k"]
    r"""Rows $\theta_j$."""
    masses: Float[Array, " m"]
    """One for each neuron; they add up to one."""
    neuron: Any
    r"""$\phi(\theta,x)$ for one neuron and all points."""

    def __call__(self, x: Float[AnyArray, "n d"]) -> Float[Array, " n"]:
        """Outputs of the network."""
        return self.features(x).T @ self.masses

    def features(self, x: Float[AnyArray, "n d"]) -> Float[Array, "m n"]:
        r"""$\phi(\theta_j,x_i)$ of every neuron at every point."""
        return jax.vmap(self.neuron, (0, None))(self.neurons, jnp.asarray(x, float))

    def mixed(self, other: "NeuronPopulation", share: float | int) -> "NeuronPopulation":
        r"""The mixture $(1-s)\mu+s\nu$ of two measures: the neurons of both, with their masses scaled."""
        if not 0 <= share <= 1:
            raise ValueError(f"share must be between 0 and 1, got {share!r}.")
        masses = jnp.concatenate([(1 - share) * self.masses, share * other.masses])
        return NeuronPopulation(jnp.concatenate([self.neurons, other.neurons]), masses, self.neuron)

    def risk(self, x: AnyArray, y: AnyArray, loss: OutputLoss = half_mean_square) -> Array:
        """The loss of the outputs."""
        return loss(self(x), jnp.asarray(y, float))

    def potential_slopes(
        self, x: AnyArray, y: AnyArray, loss: OutputLoss = half_mean_square
    ) -> Float[Array, "m k"]:
        r"""$\nabla V(\theta_j)$, the gradient of the first variation of the risk at every neuron."""
        x = jnp.asarray(x, float)
        pull = jax.grad(loss)(self(x), jnp.asarray(y, float))
        potential = lambda theta: self.neuron(theta, x) @ pull
        return jax.vmap(jax.grad(potential))(self.neurons)

    def stepped(
        self, x: AnyArray, y: AnyArray, tau: float | Array, loss: OutputLoss = half_mean_square
    ) -> "NeuronPopulation":
        r"""One explicit step of the flow: gradient descent on the weights with the rate $m\tau$."""
        moved = self.neurons - tau * self.potential_slopes(x, y, loss)
        return NeuronPopulation(moved, self.masses, self.neuron)

    def descend(
        self,
        x: Float[AnyArray, "n d"],
        y: Float[AnyArray, " n"],
        *,
        tau: float | int,
        steps: int,
        loss: OutputLoss = half_mean_square,
    ) -> "PopulationPath":
        r"""Gradient descent on all neurons, a step $\tau$ at a time.

        Parameters
        ----------
        x, y
            Training inputs and labels.
        tau
            The step in the time of the flow; the weights of m neurons move with the rate $m\tau$.
        steps
            How many.
        loss
            Function of (outputs, labels), half the mean square by default; convex in the outputs if the risk
            is to be convex in the measure.
        """
        check_positive("tau", tau)
        check_whole("steps", steps)
        x, y = _as_data(x, y)
        end, risks = _descend(self, x, y, jnp.asarray(float(tau)), steps, loss)
        if not np.isfinite(np.asarray(risks)).all():
            raise ValueError(f"tau={float(tau):.4g} is beyond stability: the risk runs away; take less.")
        return PopulationPath(self, end, risks, float(tau))


class PopulationPath(eqx.Module):
    """A population that has been trained."""

    start: NeuronPopulation
    end: NeuronPopulation
    risks: Float[Array, " times"]
    """The risk before the first step and after every step."""
    tau: float
    """The step."""

    @property
    def motion(self) -> float:
        r"""$(\int|\theta(T)-\theta(0)|^2d\mu)^{1/2}$, the root mean square motion of a neuron."""
        squares = jnp.sum((self.end.neurons - self.start.neurons) ** 2, axis=1)
        return float(jnp.sqrt(self.start.masses @ squares))


def neuron_population(
    neurons: Float[AnyArray, "m k"],
    neuron: str | Activation | OneHidden | Neuron = "tanh",
    masses: Float[AnyArray, " m"] | None = None,
) -> NeuronPopulation:
    r"""A measure over neurons.

    Parameters
    ----------
    neurons
        One row $\theta=(w,b,a)$ for each neuron: input weights, bias, output weight. A function of your own
        may read the rows as it likes.
    neuron
        The activation of $a\,\sigma(w\cdot x+b)$, or any function of (theta, x) for one neuron and (points,
        features) that returns (points,).
    masses
        Positive numbers that add up to one; equal ones by default.
    """
    rows = as_numbers("neurons", neurons).astype(float)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"neurons must have shape (neurons, parameters), got {rows.shape}.")
    m = len(rows)
    weights = jnp.full(m, 1 / m) if masses is None else as_numbers("masses", masses).astype(float)
    if weights.shape != (m,) or bool(jnp.any(weights < 0)) or abs(float(weights.sum()) - 1) > 1e-9:
        raise ValueError(f"masses must be {m} numbers of at least 0 that add up to 1.")
    if isinstance(neuron, str | Activation):
        neuron = OneHidden(as_activation(neuron))
    return NeuronPopulation(rows, weights, neuron)


def infinite_population(
    inputs: int,
    nodes: int = 10,
    neuron: str | Activation | OneHidden | Neuron = "tanh",
    *,
    law: str = "uniform",
    std: float | int = 1.0,
) -> NeuronPopulation:
    r"""An infinitely wide layer with independent weights, biases and output weights, by quadrature.

    Gauss' nodes in each of the inputs + 2 numbers of a neuron. For one or two inputs; more take samples.

    Parameters
    ----------
    inputs
        Number of input features.
    nodes
        Nodes in each direction: averages are exact for polynomials up to the degree 2 nodes - 1.
    neuron
        As in `neuron_population`.
    law
        "uniform" or "gaussian". The far nodes of a Gaussian need short steps: a neuron with a large output
        weight is stable only while the step times that weight squared is small.
    std
        Standard deviation of every number.
    """
    check_whole("inputs", inputs)
    check_whole("nodes", nodes)
    at, weight = _law(law)[0](nodes)
    k = inputs + 2
    if nodes**k > _MOST_NODES:
        raise ValueError(f"{nodes} nodes in {k} directions are {nodes**k} neurons: take fewer nodes.")
    grid = np.stack(np.meshgrid(*[at] * k, indexing="ij"), axis=-1).reshape(-1, k)
    masses = np.prod(np.stack(np.meshgrid(*[weight / weight.sum()] * k), axis=-1), axis=-1).ravel()
    return neuron_population(_as_std(std) * grid, neuron, masses / masses.sum())


def sampled_population(
    key: PRNGKeyArray,
    m: int,
    inputs: int,
    neuron: str | Activation | OneHidden | Neuron = "tanh",
    *,
    law: str = "uniform",
    std: float | int = 1.0,
) -> NeuronPopulation:
    """A layer of m neurons drawn from the measure of `infinite_population`."""
    check_key(key)
    check_whole("m", m)
    check_whole("inputs", inputs)
    return neuron_population(_as_std(std) * _law(law)[1](key, (m, inputs + 2)), neuron)


def _legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    at, weight = np.polynomial.legendre.leggauss(nodes)
    return np.sqrt(3) * at, weight


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    return jax.random.uniform(key, shape, minval=-np.sqrt(3), maxval=np.sqrt(3))


# Nodes with their weights, and draws, of laws with variance one.
_LAWS = {
    "uniform": (_legendre, _uniform),
    "gaussian": (np.polynomial.hermite_e.hermegauss, jax.random.normal),
}


def _law(name: str) -> tuple[Callable, Callable]:
    if name not in _LAWS:
        raise ValueError(f"law must be one of {', '.join(_LAWS)}, got {name!r}.")
    return _LAWS[name]


def _as_std(std: float | int) -> float:
    check_positive("std", std)
    return float(std)


def _as_data(x: AnyArray, y: AnyArray) -> tuple[Array, Array]:
    x, y = as_numbers("x", x).astype(float), as_numbers("y", y).astype(float)
    if x.ndim != 2:
        raise ValueError(f"x must have shape (points, features), got {x.shape}.")
    if y.shape != (len(x),):
        raise ValueError(f"y has shape {y.shape}; {len(x)} points need ({len(x)},).")
    return x, y


@eqx.filter_jit
def _descend(start: NeuronPopulation, x, y, tau, steps: int, loss: OutputLoss):
    # Only the rows change: the neuron may be any function, which a loop cannot carry.
    at = lambda rows: NeuronPopulation(rows, start.masses, start.neuron)
    step = lambda rows, _: (at(rows).stepped(x, y, tau, loss).neurons, at(rows).risk(x, y, loss))
    rows, risks = lax.scan(step, start.neurons, None, length=steps)
    return at(rows), jnp.append(risks, at(rows).risk(x, y, loss))
