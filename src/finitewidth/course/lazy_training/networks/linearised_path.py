r"""How far training takes a network from the path of its linearisation.

The model is $\alpha h$, or $\alpha(h-h(w_0))$ when it is centred, and the loss $|\alpha
h-y|^2/(2\alpha^2)$, half a sum of squares: outputs then move at one speed for every scale $\alpha$. The
linearised model $\bar h$ is the tangent at $w_0$ and is trained along with the same steps.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.checks import as_targets, check_positive
from finitewidth.architecture.layer import Layer
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments, rate_tree
from finitewidth.networks.training.training import DivergenceError, check_lengths, record_times


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
    seen, changes = _paths(
        model, params, x, y, tensor, *numbers, centred, steps // every, every, steps % every
    )
    losses, motion, weight_gap, output_gap = (np.asarray(part) for part in seen)
    if not np.isfinite(losses).all():
        raise DivergenceError(
            f"training diverged with learning_rate={learning_rate:.4g}: use one below 2/lambda_max of the "
            "tangent kernel."
        )
    return LinearisedPath(
        record_times(steps, every), losses, motion, weight_gap, output_gap, *(float(c) for c in changes)
    )


@eqx.filter_jit
def _paths(
    model: Model,
    start: PyTree,
    x: Array,
    y: Array,
    tensor: PyTree,
    eta: Array,
    scale: Array,
    centred: bool,
    records: int,
    every: int,
    rest: int,
):
    w0, unravel = ravel_pytree(start)
    rates = ravel_pytree(jax.tree.map(lambda p, r: jnp.broadcast_to(r, p.shape), start, tensor))[0]
    origin = model(start, x) if centred else jnp.zeros((), w0.dtype)

    def outputs(w: Array) -> Array:
        return scale * (model(unravel(w), x) - origin)

    first, push = jax.linearize(outputs, w0)
    pull = jax.linear_transpose(push, w0)

    def kernel(w: Array) -> Array:
        back = jax.vjp(outputs, w)[1]
        rows = jax.vmap(lambda u: back(u)[0])(jnp.eye(y.size, dtype=y.dtype).reshape(-1, *y.shape))
        return (rows * rates) @ rows.T

    def step(paths: tuple[Array, Array], _):
        w, bar = paths
        z, back = jax.vjp(outputs, w)
        z_bar = first + push(bar - w0)
        moves = (back((z - y) / scale**2)[0], pull((z_bar - y) / scale**2)[0])
        return (w - eta * rates * moves[0], bar - eta * rates * moves[1]), None

    def look(paths: tuple[Array, Array]):
        w, bar = paths
        z, z_bar = outputs(w), first + push(bar - w0)
        losses = jnp.stack([jnp.sum((out - y) ** 2) / 2 for out in (z, z_bar)])
        return losses, jnp.linalg.norm(w - w0), jnp.linalg.norm(w - bar), jnp.linalg.norm(z - z_bar)

    def stretch(length: int):
        def run(paths: tuple[Array, Array], _):
            paths, _ = lax.scan(step, paths, None, length=length)
            return paths, look(paths)

        return run

    paths = (w0, w0)
    seen = [jax.tree.map(lambda a: a[None], look(paths))]
    for count, length in ((records, every), (1, rest)):
        if count and length:
            paths, piece = lax.scan(stretch(length), paths, None, length=count)
            seen.append(piece)
    before, after = kernel(w0), kernel(paths[0])
    change = jnp.linalg.norm(after - before) / jnp.linalg.norm(before)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *seen), (jnp.linalg.norm(w0), change)
