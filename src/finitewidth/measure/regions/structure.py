"""Operations of JAX that only move entries, and which entries meet in sums and windows."""

from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Int

from finitewidth.measure.regions.windows import windows


def rearranged(primitive: Any, settings: dict, inputs: list[np.ndarray]) -> np.ndarray:
    """What an operation that only moves entries makes of an array; by NumPy, which compiles nothing."""
    array, name = inputs[0], primitive.name
    if name == "transpose":
        return array.transpose(settings["permutation"])
    if name in ("reshape", "expand_dims") and settings.get("dimensions") is None:
        return array.reshape(settings["new_sizes"])
    if name == "squeeze":
        return np.squeeze(array, settings["dimensions"])
    if name == "rev":
        return np.flip(array, settings["dimensions"])
    if name == "slice":
        steps = settings["strides"] or (1,) * array.ndim
        cuts = zip(settings["start_indices"], settings["limit_indices"], steps, strict=True)
        return array[tuple(slice(*cut) for cut in cuts)]
    if name == "broadcast_in_dim":
        shape = [1] * len(settings["shape"])
        for axis, place in enumerate(settings["broadcast_dimensions"]):
            shape[place] = array.shape[axis]
        return np.broadcast_to(array.reshape(shape), settings["shape"])
    if name == "convert_element_type":
        return array.astype(settings["new_dtype"])
    if name == "pad":
        inputs = [array, np.asarray(inputs[1], array.dtype)]
    return np.asarray(primitive.bind(*inputs, **settings))


def summed(shape: tuple[int, ...], axes: tuple[int, ...]) -> scipy.sparse.csr_array:
    """The matrix that sums an array of this shape over some axes."""
    kept = [size if axis not in axes else 1 for axis, size in enumerate(shape)]
    rows = np.broadcast_to(np.arange(int(np.prod(kept))).reshape(kept), shape).reshape(-1)
    columns = np.arange(rows.size)
    return scipy.sparse.csr_array(
        (np.ones(rows.size), (rows, columns)), shape=(int(np.prod(kept)), rows.size)
    )


def window_groups(shape: tuple[int, ...], settings: dict) -> Int[np.ndarray, "windows members"]:
    """The entries that every window of a reduction covers; -1 in the padding."""
    if set(settings["base_dilation"]) != {1}:
        raise ValueError(f"pooling with base_dilation={settings['base_dilation']} is not known.")
    found = windows(
        shape,
        settings["window_dimensions"],
        settings["window_strides"],
        tuple(settings["padding"]),
        settings["window_dilation"],
    )
    return found.reshape(-1, found.shape[-1])
