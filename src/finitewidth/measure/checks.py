"""Models that cannot be measured as they are: dropout, batch statistics, numbers that are not finite."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from finitewidth._base.foreign import is_torch
from finitewidth.measure.specimen import Specimen

_TORCH = "call `model.eval()`"
_NNX = "call `model.eval()`"
_EQUINOX = "pass `equinox.nn.inference_mode(model)`"
_LINEN = "pass `deterministic=True` to the dropout and `use_running_average=True` to the normalisation"
_ANY = f"{_TORCH} (PyTorch, NNX), {_EQUINOX}, or {_LINEN} (linen)"


def check_mode(model: Any, params: PyTree | None = None, x: Any = None) -> None:
    """Refuse a model in the mode of training, if dropout or batch statistics make that a difference.

    Nothing is computed: a PyTorch module that runs in train mode changes its running means.
    """
    switch, active = _active(model, params, x)
    for what, name in active:
        where = f" ({name})" if name else ""
        raise ValueError(f"the model is in training mode, with {what}{where}: {switch} first.")


def check_function_of_one_input(specimen: Specimen, *, again: bool = True) -> None:
    """Refuse outputs that are not finite, differ from call to call, or depend on the other inputs."""
    outputs = specimen.outputs()
    if not np.isfinite(outputs).all():
        bad = int(np.sum(~np.isfinite(outputs).all(axis=1)))
        raise ValueError(
            f"the outputs of {bad} of {len(outputs)} points are NaN or infinite: the weights or the inputs "
            "are too large, or the model divides by zero."
        )
    if again and not np.array_equal(outputs, specimen.outputs()):
        raise ValueError(f"two calls with the same inputs differ, as with dropout: {_ANY}.")
    if specimen.points > 1:
        few = max(1, specimen.points // 2)
        alone = specimen.on(jax.tree.map(lambda part: part[:few], specimen.x)).outputs()
        size = float(np.max(np.abs(outputs))) or 1.0
        # Sums in another order differ by rounding, which layers and divisions enlarge.
        if np.max(np.abs(alone - outputs[:few])) > 1e4 * np.finfo(outputs.dtype).eps * size:
            raise ValueError(
                f"an input's outputs depend on the other inputs, as with batch statistics: {_ANY}."
            )


def empty_statistics(model: Any) -> tuple[str, ...]:
    """The batch normalisations of a PyTorch module that have never seen a batch."""
    if not is_torch(model):
        return ()
    return tuple(
        name
        for name, part in model.named_modules()
        if getattr(part, "num_batches_tracked", None) is not None and int(part.num_batches_tracked) == 0
    )


def _active(model: Any, params: PyTree | None, x: Any) -> tuple[str, Iterator[tuple[str, str]]]:
    origins = {kind.__module__ for kind in type(model).__mro__}
    if is_torch(model):
        return _TORCH, _active_in_torch(model)
    if any(origin.startswith("flax.nnx") for origin in origins):
        return _NNX, _active_in_nnx(model)
    if any(origin.startswith("flax.linen") for origin in origins):
        return _LINEN, _active_in_linen(model, params, x)
    if any(origin.startswith("equinox") for origin in origins):
        return _EQUINOX, _active_in_equinox(model)
    return _ANY, iter(())


def _active_in_torch(model: Any) -> Iterator[tuple[str, str]]:
    from torch import nn

    noise = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    for name, part in model.named_modules():
        if not part.training:
            continue
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm):
            yield "batch statistics", name
        rate = part.p if isinstance(part, noise) else getattr(part, "dropout", 0.0)
        if isinstance(part, nn.RReLU) or (isinstance(rate, float) and rate > 0):
            yield "dropout" if rate else "random slopes", name


def _active_in_nnx(model: Any) -> Iterator[tuple[str, str]]:
    from flax import nnx

    for path, part in nnx.iter_modules(model):
        name = ".".join(map(str, path))
        rate = part.rate if isinstance(part, nnx.Dropout) else getattr(part, "dropout_rate", 0.0)
        if rate and not getattr(part, "deterministic", False):
            yield "dropout", name
        if isinstance(part, nnx.BatchNorm) and not part.use_running_average:
            yield "batch statistics", name


def _active_in_equinox(model: Any) -> Iterator[tuple[str, str]]:
    import equinox as eqx

    kinds = (eqx.nn.Dropout, eqx.nn.BatchNorm)
    parts = jax.tree_util.tree_leaves_with_path(model, is_leaf=lambda part: isinstance(part, kinds))
    for path, part in parts:
        if isinstance(part, kinds) and not part.inference and getattr(part, "p", 1.0):
            what = "dropout" if isinstance(part, eqx.nn.Dropout) else "batch statistics"
            yield what, jax.tree_util.keystr(path, simple=True, separator=".")


def _active_in_linen(model: Any, params: PyTree | None, x: Any) -> Iterator[tuple[str, str]]:
    """Linen says in the call whether it trains: only then is it seen."""
    from flax import errors

    if params is None or x is None:
        return
    try:
        jax.eval_shape(model.apply, params, jax.tree.map(lambda part: np.asarray(part)[:1], x))
    except errors.InvalidRngError:
        yield "dropout", ""
    except errors.ModifyScopeVariableError:
        yield "batch statistics", ""
    except (errors.FlaxError, TypeError, ValueError):
        return  # whatever else is wrong with the arguments, the specimen says
