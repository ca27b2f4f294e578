"""`compare_outputs`: the outputs of networks that somebody else trained, beside a predicted law."""

import numpy as np

from finitewidth._base.checks import as_number, as_numbers
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.statistics.wide.inputs import ArrayLike
from finitewidth.verification.overall import LawError, Overall, compare
from finitewidth.verification.verify import sampling_errors


def compare_outputs(
    law: TrainedDistribution | PointwiseLaw | LargeLaw,
    outputs: ArrayLike,
    depth_over_width: float = 0.0,
) -> Overall:
    """Mean, size of the spread and shape of the covariance of networks, tested against a law as a whole.

    Parameters
    ----------
    law
        What `predict` returned. One of many rows has variances only, at some test points: they are compared
        there, and the shape of the covariance is not.
    outputs
        Of at least three networks at the test points of the law, (networks, test) or (networks, test, out).
    depth_over_width
        Of the networks, zero for outputs that are Gaussian. Their kernels differ by so much at least, and
        directions whose variance is below this share of the largest are left out.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> from finitewidth.verification import compare_outputs
    >>> x = jnp.linspace(-1, 1, 4)[:, None]
    >>> net = fw.MLP(hidden=(256,), activation="relu", C_b=0.1, C_W=2.0)
    >>> law = fw.predict(net, x, jnp.sin(3 * x[:, 0]), jnp.array([[-0.5], [0.1]]))
    >>> whole = compare_outputs(law, law.sample(jax.random.key(0), 300))
    >>> whole.alarms
    ()
    """
    given = np.asarray(as_numbers("outputs", outputs), dtype=float)
    if given.ndim == 2:
        given = given[:, :, None]
    mean = np.asarray(law.mean, dtype=float)
    if given.ndim != 3 or given.shape[1:] != mean.shape or len(given) < 3:
        test, out = mean.shape
        raise ValueError(
            f"outputs has shape {given.shape}; this law needs (networks, {test}, {out}), 3 networks or more."
        )
    if not np.isfinite(given).all():
        raise ValueError("outputs holds NaN or infinite values: leave out networks that diverged.")
    share = as_number("depth_over_width", depth_over_width)
    rows = law.rows if isinstance(law, LargeLaw) else np.arange(len(mean))
    sampled = isinstance(law, TrainedDistribution)
    known = np.asarray(law.covariance if sampled else law.variance, dtype=float)
    errors = sampling_errors(law) if sampled else (None, None)
    error = LawError.of(known, share, *errors)
    whole = compare(given[:, rows], mean[rows], known, share, error)
    if whole is None:
        raise ValueError("the law has no spread anywhere, so there is nothing to compare spreads with.")
    return whole
