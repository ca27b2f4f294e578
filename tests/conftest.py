"""Shared fixtures. The annotations of the package are executed in every test."""

import os
import sys

import jaxtyping

# The terminal that the pages of the book show.
os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}

if any(name == "finitewidth" or name.startswith("finitewidth.") for name in sys.modules):
    raise ImportError("finitewidth was imported before its annotations could be switched on.")
jaxtyping.install_import_hook("finitewidth", "beartype.beartype")

import numpy as np
import pytest

import finitewidth  # noqa: F401  (switches JAX to 64 bits before any test builds an array)
from finitewidth.programs import keep_programs, release_programs

keep_programs(say=lambda sentence: print(sentence, file=sys.stderr))


@pytest.fixture(autouse=True)
def _few_programs():
    """One process runs a thousand tests and more: it must not run out of memory maps."""
    release_programs()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2024)


@pytest.fixture
def unchecked_annotations():
    """Let a wrongly typed argument reach the sentence that the package itself has for it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
