"""The page that maps symbols to code names only what exists."""

import importlib
import re
from pathlib import Path

import pytest

from finitewidth.prediction.methods.first_order.sampled.neuron import Neuron

PAGE = (Path(__file__).parents[2] / "docs" / "theory" / "order-one-code.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:[a-z_]+\.){2,}\w+)`", PAGE)))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name):
    full = "finitewidth." + re.sub(r"^finite_width\.", "prediction.finite_width.", name)
    module, _, thing = full.rpartition(".")
    assert hasattr(importlib.import_module(module), thing)


def test_every_method_of_the_neuron_exists():
    methods = re.findall(r"`Neuron\.(\w+)`", PAGE)
    assert len(methods) >= 8
    assert all(hasattr(Neuron, method) for method in methods)
