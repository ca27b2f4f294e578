"""Typical mistakes, for the wrong theories of a claim."""

from collections.abc import Callable
from typing import Any

import numpy as np


def scaled(factor: float) -> Callable[[Any, np.ndarray], np.ndarray]:
    """A wrong factor."""
    return lambda setting, value: np.asarray(value * factor)


def power(exponent: float) -> Callable[[Any, np.ndarray], np.ndarray]:
    """A wrong power."""
    return lambda setting, value: value**exponent


def shifted(by: float) -> Callable[[Any, np.ndarray], np.ndarray]:
    """A wrong term."""
    return lambda setting, value: np.asarray(value + by)


def constant(setting: Any, value: np.ndarray) -> np.ndarray:
    """No dependence on the first axis: as if nothing changed along it."""
    return np.broadcast_to(value[:1], value.shape)
