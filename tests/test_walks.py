"""How far a reader must walk to follow a call: the numbers may fall, and must not rise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Modules entered, and changes of module; modules of ours that are loaded by then.
MOST = {
    "order 0": {"entered": 30, "changes": 208, "loaded": 110},
    "kernels": {"entered": 18, "changes": 75},
    "train": {"entered": 11, "changes": 40},
    "order 1": {"entered": 46, "changes": 2_750},
    "one claim": {"loaded": 98},
}


@pytest.fixture(scope="module")
def walks():
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    run = [sys.executable, Path(__file__).with_name("walks.py")]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout)


@pytest.mark.parametrize("call", MOST)
def test_a_call_enters_few_modules(walks, call):
    assert {name: walks[call][name] for name, most in MOST[call].items() if walks[call][name] > most} == {}
