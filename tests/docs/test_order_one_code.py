"""The page that maps symbols to code names only what exists."""

import importlib
import re
from pathlib import Path

from finitewidth.prediction.methods.first_order.sampled.neuron import Neuron

PAGE = (Path(__file__).parents[2] / "docs" / "theory" / "order-one-code.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:[a-z_]+\.){2,}\w+)`", PAGE)))


def exists(name: str) -> bool:
    """Of a room, or below `prediction.methods`, for short."""
    room = name.partition(".")[0]
    inside = "prediction.methods." if room in ("first_order", "kinks", "mean_field") else ""
    module, _, thing = f"finitewidth.{inside}{name}".rpartition(".")
    return hasattr(importlib.import_module(module), thing)


def test_every_name_exists():
    assert len(NAMES) >= 50
    assert [name for name in NAMES if not exists(name)] == []


def test_every_method_of_the_neuron_exists():
    methods = re.findall(r"`Neuron\.(\w+)`", PAGE)
    assert len(methods) >= 8
    assert all(hasattr(Neuron, method) for method in methods)
