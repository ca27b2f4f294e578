"""Shared fixtures. The annotations of the package are executed in every test."""

import gc
import itertools
import os
import sys

import jaxtyping

# The terminal that the pages of the book show.
os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
# Most programs of the tests run for milliseconds: what counts is that they are compiled quickly. Without
# MLIR between XLA and LLVM, in one piece, and without optimisation, that takes a quarter of the time.
_QUICK_COMPILATION = {
    "xla_backend_optimization_level": "1",  # where a test switches optimisation on
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}
os.environ.setdefault(
    "XLA_FLAGS", " ".join(f"--{name}={value}" for name, value in _QUICK_COMPILATION.items())
)
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

if any(name == "finitewidth" or name.startswith("finitewidth.") for name in sys.modules):
    raise ImportError("finitewidth was imported before its annotations could be switched on.")
jaxtyping.install_import_hook("finitewidth", "beartype.beartype")

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (loads its own BLAS)
from threadpoolctl import threadpool_limits

import finitewidth  # noqa: F401  (switches JAX to 64 bits before any test builds an array)
from costs import (  # noqa: F401  (the hooks are pytest's)
    function_of,
    pytest_addoption,
    pytest_runtest_call,
    pytest_runtest_logreport,
    pytest_runtest_setup,
    pytest_sessionfinish,
    slow_tests,
)
from finitewidth._base.programs import keep_programs, release_programs
from quick_compilation import optimisation

keep_programs(say=lambda sentence: print(sentence, file=sys.stderr))
# The matrices of the tests are small: threads of BLAS would wait for each other, and for the other worker.
threadpool_limits(1)


# Files whose tests share nothing with each other.
_APART = ("tests/course/_lab/test_claims.py", "tests/docs/test_code_blocks.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep a file on one worker, so that its fixtures and programs are made once; spread the others."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if nodeid.startswith(_APART) else nodeid.split("::")[0]

    return Scheduler(config, log)


_SLOW = slow_tests()


def pytest_collection_modifyitems(items):
    """Whole files first; then single tests, the longest claims leading, so that all workers end together."""
    for item in items:
        if function_of(item.nodeid) in _SLOW:
            item.add_marker("slow")
    whole = [item for item in items if not item.nodeid.startswith(_APART)]
    single = [item for item in items if item.nodeid.startswith(_APART)]
    summary = [item for item in single if "rarely_fails_by_noise" in item.name]
    items[:] = [*whole, *(item for item in reversed(single) if item not in summary), *summary]


def pytest_collection_finish():
    """What was imported stays: the garbage collector need not look at it again, for a second each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


_TESTS = itertools.count()
_MOST_BYTES = 2.5e9


@pytest.fixture(autouse=True)
def _few_programs():
    """One process runs a thousand tests and more: it must not run out of memory maps.

    Counting them takes up to 20 milliseconds, and ten tests never use up the share that is left.
    """
    if next(_TESTS) % 10 == 0:
        release_programs()


@pytest.fixture(autouse=True, scope="module")
def _little_memory():
    """Between files, which share few programs, a worker forgets its programs before they fill the memory."""
    release_programs(most_bytes=_MOST_BYTES)


@pytest.fixture
def optimised():
    """Optimise the programs of a test that runs for longer than they take to compile."""
    with optimisation():
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2024)


@pytest.fixture
def unchecked_annotations():
    """Let a wrongly typed argument reach the sentence that the package itself has for it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
