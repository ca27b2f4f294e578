"""Averages over trained networks whose noise is small enough to see effects of order 1/width.

Two partners share most of a trained network's randomness. The network with the signs of its last layer
flipped starts from minus the outputs with the same tangent kernel: in the average of both everything odd
in the initial outputs is gone, at first order all of their spread. The network linearised at its own start
and trained in the same way differs from it by 1/width only: the average of the difference is the effect of
the moving kernel, and the average of the linearised network itself costs no training, so that it can be
taken over many more draws.
"""

import os
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth._base.checks import check_key
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth.architecture.dense import Affine
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import check_network
from finitewidth.architecture.weights import Draw
from finitewidth.networks.checkpoints import Settings
from finitewidth.networks.members import map_members
from finitewidth.networks.models import Inputs, as_points
from finitewidth.networks.training.ensembles import bytes_of_training, describe, refuse_unnamed
from finitewidth.networks.training.linear_descent import linear_descent
from finitewidth.networks.training.optimizers import anchored_descent
from finitewidth.networks.training.training import DivergenceError, State, Task, as_task, trajectory


class PairedEnsemble(NamedTuple):
    """Averages over trained networks and their partners, at the test inputs.

    Attributes
    ----------
    plain
        Average of the trained networks, without partners.
    flipped
        The same average over pairs with flipped last layers.
    nonlinear
        Average of network minus linearised network, over flipped pairs.
    mean
        `nonlinear` plus the average of the linearised networks over all their draws: the estimate of
        the trained mean with the least noise.
    outputs, linear
        Of every pair, trained and linearised, with both signs of the last layer: (pairs, 2, test, out).
    linear_draws
        Linearised networks of further draws, which were not trained: (draws, 2, test, out).
    settings
        Everything that the numbers depend on.
    """

    plain: Estimate
    flipped: Estimate
    nonlinear: Estimate
    mean: Estimate
    outputs: Float[np.ndarray, "pairs 2 test out"]
    linear: Float[np.ndarray, "pairs 2 test out"]
    linear_draws: Float[np.ndarray, "draws 2 test out"]
    settings: Settings

    @property
    def variance_reduction(self) -> dict[str, Float[np.ndarray, "test out"]]:
        """Variance of `plain` over the variance of each estimate, at equal numbers of pairs."""
        names = ("flipped", "nonlinear", "mean")
        return {name: (self.plain.sem / getattr(self, name).sem) ** 2 for name in names}


def flip_last_layer(params: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
    """The network with outputs of the opposite sign."""
    last = params[-1]
    if not isinstance(last, Affine):
        raise ValueError("the last layer must be dense: the sign of its weights and biases is flipped.")
    return (*params[:-1], Affine(-last.weight, -last.bias))


class Pair(eqx.Module):
    """One draw with both signs of the last layer: trained, and linearised."""

    net: Layer
    task: Task
    x_test: Array
    learning_rate: float = eqx.field(static=True)
    ridge: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    weights: str | Draw = eqx.field(static=True)
    trained: bool = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> dict[str, Array]:
        draw_key, batch_key = jax.random.split(key)
        drawn = self.net.init(draw_key, self.task.x.shape[1:], weights=self.weights, dtype=self.task.x.dtype)
        signs = (drawn, flip_last_layer(drawn))
        descent = linear_descent(self.task, signs, self.x_test, self.learning_rate, self.steps, self.ridge)
        linear = {"linear": descent.outputs, "lambda_max": descent.lambda_max}
        if not self.trained:
            return linear
        outputs = []
        for params in signs:
            state = State(params, self.task.optimizer.init(params), jnp.zeros((), int))
            state, _, _ = trajectory(self.task, {}, state, batch_key, 1, self.steps)
            outputs.append(self.task.model(state.params, self.x_test))
        return {**linear, "outputs": jnp.stack(outputs)}


def paired_ensemble(
    net: Layer,
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    x_test: Inputs | None = None,
    *,
    steps: int,
    learning_rate: float,
    ridge: float = 0.0,
    linear_size: int | None = None,
    weights: str | Draw = "gaussian",
    memory_limit: int = 2**30,
    directory: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    progress: bool = False,
) -> PairedEnsemble:
    """The mean of trained networks with flipped and linearised partners, for full-batch gradient descent.

    Parameters
    ----------
    net, key, x, y, x_test, steps, learning_rate, weights
        As in `train_ensemble`; the loss is the squared error.
    size
        Number of pairs to train: two networks each.
    ridge
        Strength r of a penalty r/2 |theta - theta(0)|^2, in units of the learning rates (`anchored_descent`).
    linear_size
        Number of draws for the linearised mean, which needs no training; ten times `size` by default.
    memory_limit, directory, checkpoint_every, progress
        As in `train_ensemble`.

    Returns
    -------
    PairedEnsemble
        The estimates, and by how much each reduces the variance.
    """
    check_network(net)
    check_key(key)
    x = as_points("x", x)
    x_test = x if x_test is None else as_points("x_test", x_test)
    # Shapes and types are enough here, and cost no compilation.
    sample = eqx.filter_eval_shape(net.init, key, x.shape[1:], weights=weights, dtype=x.dtype)
    net.check(sample, x_test)
    if ridge > 0:
        how = None, anchored_descent(net, x.shape[1:], learning_rate, ridge)
    else:
        how = learning_rate, "sgd"
    task, _ = as_task(net, sample, x, y, *how, "mse", None, key, None)
    linear_size = 10 * size if linear_size is None else linear_size
    if size < 2 or linear_size < 2:
        raise ValueError(f"size and linear_size must be at least 2, got {size} and {linear_size}.")
    about = describe(net, key, task, x_test, "sgd", learning_rate, weights)
    settings = {**about, "steps": steps, "kind": "pairs", **({"ridge": float(ridge)} if ridge > 0 else {})}
    if directory is not None:
        refuse_unnamed(weights=weights)
    trained_key, linear_key = jax.random.split(key)
    trained, linearised = (
        Pair(net, task, x_test, learning_rate, ridge, steps, weights, trained) for trained in (True, False)
    )
    shared: dict[str, Any] = {"memory_limit": memory_limit, "progress": progress, "side_by_side": False}
    kept: dict[str, Any] = {
        "directory": directory, "settings": settings, "checkpoint_every": checkpoint_every
    }  # fmt: skip
    bytes_each = 2 * bytes_of_training(net, task, x_test)
    pairs = map_members(trained, trained_key, size, bytes_each, **shared, **kept)
    alone = map_members(linearised, linear_key, linear_size, bytes_each, **shared)
    _refuse_unstable(learning_rate, np.concatenate([pairs["lambda_max"], alone["lambda_max"]]) + ridge)
    outputs, linear = pairs["outputs"], pairs["linear"]
    nonlinear = sample_mean((outputs - linear).mean(axis=1))
    still = sample_mean(alone["linear"].mean(axis=1))
    return PairedEnsemble(
        plain=sample_mean(outputs[:, 0]),
        flipped=sample_mean(outputs.mean(axis=1)),
        nonlinear=nonlinear,
        mean=Estimate(nonlinear.value + still.value, np.hypot(nonlinear.sem, still.sem), nonlinear.dof),
        outputs=outputs,
        linear=linear,
        linear_draws=alone["linear"],
        settings={"size": size, "linear_size": linear_size, **settings},
    )


def _refuse_unstable(learning_rate: float, lambda_max: Float[np.ndarray, " draws"]) -> None:
    unstable = learning_rate * lambda_max >= 2
    if unstable.any():
        raise DivergenceError(
            f"learning_rate={learning_rate:.4g} is above 2/lambda_max for {int(unstable.sum())} of "
            f"{len(lambda_max)} draws, whose linearised networks diverge; "
            f"use at most {2 / lambda_max.max():.4g}."
        )
