r"""How far training takes a network from the path of its linearisation.

The model is $\alpha h$, or $\alpha(h-h(w_0))$ when it is centred, and the loss $|\alpha
h-y|^2/(2\alpha^2)$, half a sum of squares: outputs then move at one speed for every scale $\alpha$. The
linearised model $\bar h$ is the tangent at $w_0$ and is trained along with the same steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.checks import as_targets, check_positive
from finitewidth._base.follow import Moving, follow
from finitewidth.architecture.layer import Layer
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments, rate_tree
from finitewidth.networks.training.training import DivergenceError, check_lengths


class LinearisedPath(NamedTuple):
    """A training path beside that of the linearised network, at the recorded steps."""

    times: Int[np.ndarray, " records"]
    """Steps."""
    losses: Float[np.ndarray, "records 2"]
    """Half the sum of squared errors of the network and of its linearisation."""
    motion: Float[np.ndarray, " records"]
    """|w - w_0|."""
    weight_gap: Float[np.ndarray, " records"]
    """Distance of the weights from those of the linearised model."""
    output_gap: Float[np.ndarray, " records"]
    """Distance of the outputs, over all points and outputs, from those of the linearised model."""
    start_size: float
    """|w_0|."""
    kernel_change: float
    """|K_1 - K_0|_F / |K_0|_F of the tangent kernel between the start and the end."""

    @property
    def largest(self) -> tuple[float, float, float]:
        """Largest motion, weight gap and output gap at any recorded time."""
        return float(self.motion.max()), float(self.weight_gap.max()), float(self.output_gap.max())

    @property
    def relative_motion(self) -> float:
        """Largest |w - w_0| / |w_0|."""
        return float(self.motion.max()) / self.start_size


def linearised_path(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x: Inputs,
    y: Inputs,
    *,
    learning_rate: float,
    steps: int,
    scale: float | int = 1.0,
    centred: bool = False,
    rates: PyTree | None = None,
    record_every: int | None = None,
) -> LinearisedPath:
    r"""Train a network and its linearisation by gradient descent, side by side.

    Parameters
    ----------
    apply_or_net
        A network, or any function of (params, x).
    params
        Where both start.
    x, y
        Training inputs (points, ...) and labels (points, out).
    learning_rate
        The step $\eta$. A frozen kernel is stable below $2/\lambda_{max}$ of the tangent kernel of h,
        whatever the scale.
    steps
        Steps of gradient descent.
    scale
        $\alpha$: the larger, the lazier.
    centred
        Whether the outputs of the start are taken away, so that training starts at zero.
    rates
        Learning-rate tensor; by default that of the network, and one for functions.
    record_every
        Steps between two records.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.course.lazy_training.networks import linearised_path
    >>> net = fw.MLP((16,), "tanh")
    >>> x = jax.random.normal(jax.random.key(1), (5, 3))
    >>> start = net.init(jax.random.key(0), 3)
    >>> near, far = (
    ...     linearised_path(net, start, x, x[:, :1], learning_rate=0.1, steps=100, scale=a, centred=True)
    ...     for a in (100.0, 1.0)
    ... )
    >>> near.relative_motion < 0.02 * far.relative_motion
    True
    """
    model = as_model(apply_or_net)
    x = as_points("x", x, model)
    check_arguments(model, params, x)
    check_positive("learning_rate", learning_rate)
    check_positive("scale", scale)
    dtype = jax.eval_shape(model, params, x).dtype
    y = as_targets(y, len(x), dtype, "y")
    every = check_lengths(steps, record_every)
    tensor = rate_tree(model, params, x.shape[1:], rates, "gradient")
    numbers = jnp.asarray(learning_rate, dtype), jnp.asarray(scale, dtype)
    moving = _BesideTangent(model, params, x, y, tensor, *numbers, centred)
    path = follow(moving, steps=steps, every=every)
    losses, motion, weight_gap, output_gap = path.seen
    if not np.isfinite(losses).all():
        raise DivergenceError(
            f"training diverged with learning_rate={learning_rate:.4g}: use one below 2/lambda_max of the "
            "tangent kernel."
        )
    changes = _changes(moving, path.end[0])
    return LinearisedPath(path.times, losses, motion, weight_gap, output_gap, *(float(c) for c in changes))


class _BesideTangent(Moving):
    """Weights of the network and of its linearisation, in a row; both descend by the same steps."""

    model: Model
    params: PyTree
    x: Array
    y: Array
    rates: PyTree
    eta: Array
    scale: Array
    centred: bool = eqx.field(static=True)

    def begin(self, own: None) -> tuple[Array, Array]:
        start = ravel_pytree(self.params)[0]
        return start, start

    @property
    def tensor(self) -> Array:
        full = jax.tree.map(lambda p, r: jnp.broadcast_to(r, p.shape), self.params, self.rates)
        return ravel_pytree(full)[0]

    def outputs(self, w: Array) -> Array:
        z = self.model(ravel_pytree(self.params)[1](w), self.x)
        return self.scale * (z - self.model(self.params, self.x) if self.centred else z)

    def step(self, state: tuple[Array, Array], t: Array, own: None) -> tuple[Array, Array]:
        w, bar = state
        z, back = jax.vjp(self.outputs, w)
        z_bar, back_bar = self.tangent(bar)
        moves = back((z - self.y) / self.scale**2)[0], back_bar((z_bar - self.y) / self.scale**2)[0]
        eta, rates = self.eta, self.tensor
        return w - eta * rates * moves[0], bar - eta * rates * moves[1]

    def tangent(self, bar: Array) -> tuple[Array, Callable]:
        """Outputs of the linearisation, and its transpose."""
        w0, _ = self.begin(None)
        first, push = jax.linearize(self.outputs, w0)
        return first + push(bar - w0), jax.linear_transpose(push, w0)

    def look(self, state: tuple[Array, Array], own: None) -> tuple[Array, ...]:
        (w, bar), (w0, _) = state, self.begin(None)
        z, (z_bar, _) = self.outputs(w), self.tangent(bar)
        losses = jnp.stack([jnp.sum((out - self.y) ** 2) / 2 for out in (z, z_bar)])
        return losses, jnp.linalg.norm(w - w0), jnp.linalg.norm(w - bar), jnp.linalg.norm(z - z_bar)


@eqx.filter_jit
def _changes(moving: _BesideTangent, end: Array) -> tuple[Array, Array]:
    """Length of the first weights, and the relative change of the tangent kernel."""
    y = moving.y

    def kernel(w: Array) -> Array:
        back = jax.vjp(moving.outputs, w)[1]
        rows = jax.vmap(lambda u: back(u)[0])(jnp.eye(y.size, dtype=y.dtype).reshape(-1, *y.shape))
        return (rows * moving.tensor) @ rows.T

    start, _ = moving.begin(None)
    before, after = kernel(start), kernel(end)
    return jnp.linalg.norm(start), jnp.linalg.norm(after - before) / jnp.linalg.norm(before)
