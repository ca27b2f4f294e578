r"""Neurons that settle in the field of the trained network around them.

One neuron has input weights w, a bias b and an output weight $v/\sqrt n$. With rates absorbed,
$w=w_0+\sqrt{\lambda_W/n_0}\,u_w$, $b=b_0+\sqrt{\lambda_b}\,u_b$, $v=v_0+\sqrt{\lambda_W}\,u_v$, it adds
$g_a(u)=v\,\sigma(w\cdot x_a+b)/\sqrt n$ to the output at $x_a$. The rest of the network holds it in the
field e and answers with the response G, so that it rests at the minimum of

$$\tfrac12|u|^2-\sum_a e_a\,g_a(u)+\tfrac12\sum_{ab}g_a(u)\,G_{ab}\,g_b(u).$$
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.special import ndtri
from scipy.stats import qmc

from finitewidth._base.arrays import AnyArray
from finitewidth._base.derivatives import value_and_derivatives
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.mlp import MLP

# Independent populations, whose scatter gives the standard error.
GROUPS = 8
# Neurons that share their input weights: output weights at the nodes of a quadrature that is exact up to
# their seventh power, each with both signs of the random part of the field. Odd powers of either, which are
# larger than the answer by the root of the width, cancel exactly.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(4)
SHARING = 2 * len(_NODES)
_NEWTON_STEPS = 2
_STEP_LENGTHS = 4.0 ** -np.arange(5)
# Near the end of its valley a neuron gives way without limit; below this stiffness it is taken for convex.
_LEAST_STIFFNESS = 0.1


class Population(NamedTuple):
    """Neurons at their start, in independent groups.

    `preactivations` at all points, training points first; `noise` is unit Gaussian and gives every neuron its
    own draw of the field; `weight` is its share of the average over its group.
    """

    preactivations: Float[Array, "group m p"]
    readout: Float[Array, "group m"]
    noise: Float[Array, "group m train"]
    weight: Float[Array, "group m"]

    @classmethod
    def draw(
        cls, net: MLP, x: Float[np.ndarray, "p d"], train: int, neurons: int, key: PRNGKeyArray
    ) -> "Population":
        """Input weights from scrambled Sobol points, at least `neurons` in all."""
        points, d = x.shape
        first, last = net.layers
        each = 2 ** max(0, int(np.ceil(np.log2(neurons / (GROUPS * SHARING)))))
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        inputs = np.concatenate(
            [x * np.sqrt(first.C_W / d), np.full((points, 1), np.sqrt(first.C_b))], axis=1
        )
        unit = np.stack([ndtri(qmc.Sobol(d + 1, rng=rng).random(each)) for _ in range(GROUPS)])
        noise = rng.normal(size=(GROUPS, each, train))
        shares = np.tile(_NODE_WEIGHTS / _NODE_WEIGHTS.sum() / 2, 2) / each
        one_group = np.ones((GROUPS, 1))
        return cls(
            *map(
                jnp.asarray,
                (
                    np.tile(unit @ inputs.T, (1, SHARING, 1)),
                    one_group * np.repeat(np.tile(_NODES, 2), each) * np.sqrt(last.C_W),
                    np.concatenate([np.tile(sign * noise, (1, len(_NODES), 1)) for sign in (1, -1)], axis=1),
                    one_group * np.repeat(shares, each),
                ),
            )
        )


class Field(NamedTuple):
    """What a neuron sees: the mean field, the covariance root of its random part, and the response to it."""

    mean: Float[Array, " train"]
    root: Float[Array, "train train"]
    response: Float[Array, "train train"]


class Neuron(eqx.Module):
    """What all neurons share: activation, learning rates and points.

    `inputs` are the points times the square roots of their rates, with one more column for the bias.
    """

    activation: Activation = eqx.field(static=True)
    inputs: Float[Array, "p k"]
    readout_rate: Float[Array, ""]
    root_width: Float[Array, ""]

    @classmethod
    def of(cls, net: MLP, x: Float[np.ndarray, "p d"]) -> "Neuron":
        """The neuron of a network with one hidden layer, at some points."""
        first, last = net.layers
        scaled = [x * np.sqrt(first.lambda_W / x.shape[1]), np.full((len(x), 1), np.sqrt(first.lambda_b))]
        numbers = np.sqrt(last.lambda_W), np.sqrt(net.hidden[0])
        return cls(net.activation, jnp.asarray(np.concatenate(scaled, axis=1)), *map(jnp.asarray, numbers))

    def outputs(self, start: Population, u: Float[Array, "m q"], order: int = 0) -> tuple[Array, list[Array]]:
        """Output weights, and the activation with its derivatives at every point."""
        h = start.preactivations + u[:, :-1] @ self.inputs.T
        derivatives = value_and_derivatives(self.activation.function, h, order)
        return start.readout + self.readout_rate * u[:, -1], derivatives

    def added(self, start: Population, u: Float[Array, "m q"]) -> Float[Array, "m p"]:
        """g: what each neuron adds to the outputs."""
        v, (s,) = self.outputs(start, u)
        return v[:, None] * s / self.root_width

    def slopes(self, v: Array, s: Array, ds: Array) -> Float[Array, "m q p"]:
        """Derivatives of g."""
        by_input = (v[:, None] * ds)[:, None, :] * self.inputs.T
        return jnp.concatenate([by_input, self.readout_rate * s[:, None, :]], axis=1) / self.root_width

    def curvature(
        self, eps: Float[Array, "m train"], v: Array, ds: Array, dds: Array
    ) -> Float[Array, "m q q"]:
        """Second derivatives of the sum of eps g."""
        train = eps.shape[1]
        x = self.inputs[:train]
        own = jnp.einsum("ma,aj,ak->mjk", eps * v[:, None] * dds[:, :train], x, x)
        mixed = self.readout_rate * ((eps * ds[:, :train]) @ x)[:, :, None]
        zero = jnp.zeros_like(mixed[:, :1])
        return jnp.block([[own, mixed], [mixed.swapaxes(1, 2), zero]]) / self.root_width


class GroupAverages(NamedTuple):
    """Averages over the neurons of one group, and how far its neurons are from rest.

    Attributes
    ----------
    remainder
        g beyond its start and its linear answer to the field: (p,).
    squares
        Products of g minus their values at the start, (p, p).
    answer
        Derivative of g by the field minus its value at the start, (p, train).
    unrest
        Mean length of the energy's gradient relative to the root mean square of u: what the averages can
        still move by. A root mean square would grow with the rarest neurons, and so with their number.
    """

    remainder: Float[AnyArray, "*group p"]
    squares: Float[AnyArray, "*group p p"]
    answer: Float[AnyArray, "*group p train"]
    unrest: Float[AnyArray, "*group"]


@eqx.filter_jit
def settle(
    neuron: Neuron, start: Population, u: Float[Array, "group m q"], field: Field
) -> tuple[Float[Array, "group m q"], GroupAverages]:
    """A few Newton steps of every neuron towards its rest, and the averages there."""
    return lax.map(lambda group: _settle_group(neuron, group[0], group[1], field), (start, u))


def _settle_group(neuron: Neuron, start: Population, u: Array, field: Field) -> tuple[Array, GroupAverages]:
    train, G = len(field.mean), field.response
    e = field.mean + start.noise @ field.root

    def energy(u: Array) -> Array:
        g = neuron.added(start, u)[:, :train]
        return 0.5 * jnp.sum(u**2, axis=1) - jnp.sum(e * g, axis=1) + 0.5 * jnp.sum((g @ G) * g, axis=1)

    def expansion(u: Array) -> tuple[Array, Array, Array, Array]:
        """Slopes at all points, gradient of the energy, its Hessian, and the Hessian without curvature."""
        v, (s, ds, dds) = neuron.outputs(start, u, 2)
        eps = e - (v[:, None] * s[:, :train] / neuron.root_width) @ G
        P = neuron.slopes(v, s, ds)
        at_train = P[:, :, :train]
        convex = jnp.eye(u.shape[1]) + (at_train @ G) @ at_train.swapaxes(1, 2)
        gradient = u - jnp.einsum("mqa,ma->mq", at_train, eps)
        return P, gradient, convex - neuron.curvature(eps, v, ds, dds), convex

    def newton(u: Array, _: None) -> tuple[Array, None]:
        gradient, hessian, convex = expansion(u)[1:]
        step = -_solve(hessian, convex, gradient[:, :, None])[:, :, 0]
        before = energy(u)
        after = jnp.stack([energy(u + t * step) for t in _STEP_LENGTHS])
        falls = after <= before + 1e-12 * jnp.abs(before)
        length = jnp.where(falls.any(axis=0), jnp.asarray(_STEP_LENGTHS)[jnp.argmax(falls, axis=0)], 0.0)
        return u + length[:, None] * step, None

    u, _ = lax.scan(newton, u, None, length=_NEWTON_STEPS)
    P, gradient, hessian, convex = expansion(u)
    v, (s, ds) = neuron.outputs(start, jnp.zeros_like(u), 1)
    P0, g0, g = neuron.slopes(v, s, ds), v[:, None] * s / neuron.root_width, neuron.added(start, u)
    linear = jnp.einsum("mqp,mqa,ma->mp", P0, P0[:, :, :train], e)
    w = start.weight
    answer = jnp.einsum("mqp,mqa->pa", w[:, None, None] * P, _solve(hessian, convex, P[:, :, :train]))
    answer -= jnp.einsum("mqp,mqa->pa", w[:, None, None] * P0, P0[:, :, :train])
    squares = (w[:, None] * g).T @ g - (w[:, None] * g0).T @ g0
    unrest = w @ jnp.linalg.norm(gradient, axis=1) / jnp.sqrt(jnp.sum(w @ u**2))
    return u, GroupAverages(w @ (g - g0 - linear), squares, answer, unrest)


def _solve(hessian: Array, convex: Array, right: Array) -> Array:
    """Hessian^-1 right; without the curvature where that leaves too little stiffness."""
    stiff, _ = _eliminated(hessian, right[:, :, :1])
    return _eliminated(jnp.where(stiff[:, None, None], hessian, convex), right)[1]


def _eliminated(
    matrix: Float[Array, "m q q"], right: Float[Array, "m q k"]
) -> tuple[Bool[Array, " m"], Float[Array, "m q k"]]:
    """Whether all pivots are stiff enough, and the solution.

    Calls of LAPACK within a loop on the CPU can wait for each other for ever.
    """

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        stiff, rows = state
        row = lax.dynamic_index_in_dim(rows, k, axis=1)
        pivot = lax.dynamic_index_in_dim(row, k, axis=2)
        row = row / pivot
        column = lax.dynamic_index_in_dim(rows, k, axis=2)
        here = (jnp.arange(rows.shape[1]) == k)[None, :, None]
        return stiff & (pivot[:, 0, 0] > _LEAST_STIFFNESS), jnp.where(here, row, rows - column * row)

    q = matrix.shape[1]
    start = jnp.ones(len(matrix), bool), jnp.concatenate([matrix, right], axis=2)
    stiff, rows = lax.fori_loop(0, q, step, start)
    return stiff, rows[:, :, q:]
