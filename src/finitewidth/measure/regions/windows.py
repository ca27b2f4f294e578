"""Windows that slide over an array: what convolutions multiply and pooling compares."""

import numpy as np
import scipy.sparse
from jaxtyping import Int


def windows(
    shape: tuple[int, ...],
    size: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
) -> Int[np.ndarray, "*places members"]:
    """Flat places of the entries in each window over an array of this shape; -1 in the padding."""
    places = np.pad(np.arange(int(np.prod(shape))).reshape(shape), padding, constant_values=-1)
    reach = tuple((n - 1) * step + 1 for n, step in zip(size, dilation, strict=True))
    if any(r > n for r, n in zip(reach, places.shape, strict=True)):
        raise ValueError(f"a window of size {size} does not fit into an array of shape {shape}.")
    seen = np.lib.stride_tricks.sliding_window_view(places, reach)
    every = tuple(slice(None, None, step) for step in strides)
    inside = tuple(slice(None, None, step) for step in dilation)
    seen = seen[every + inside]
    return seen.reshape(*seen.shape[: len(shape)], -1)


def convolution(
    kernel: np.ndarray,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
    groups: int,
) -> tuple[scipy.sparse.csr_array, tuple[int, ...]]:
    """The matrix of a convolution of (channels, *shape) with a kernel (out, channels / groups, *size).

    Returned with the shape (out, *places) of what leaves.
    """
    out, per_group, *size = kernel.shape
    seen = windows(shape, tuple(size), strides, padding, dilation)
    places, positions = seen.shape[:-1], int(np.prod(shape))
    seen = seen.reshape(-1, seen.shape[-1])
    weight = kernel.reshape(out, per_group, -1)
    group = np.arange(out) // (out // groups)
    channels = group[:, None] * per_group + np.arange(per_group)
    # Axes: out, place, channel of the group, member of the window.
    columns = channels[:, None, :, None] * positions + seen[None, :, None, :]
    inside = np.broadcast_to(seen[None, :, None, :] >= 0, columns.shape)
    rows = np.broadcast_to(np.arange(out * len(seen)).reshape(out, -1, 1, 1), columns.shape)
    values = np.broadcast_to(weight[:, None], columns.shape)
    matrix = scipy.sparse.csr_array(
        (values[inside], (rows[inside], columns[inside])),
        shape=(out * len(seen), groups * per_group * positions),
    )
    return matrix, (out, *places)
