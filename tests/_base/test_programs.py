"""Compiled programs are kept on disk, and a long-lived process lets go of those it has compiled."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from finitewidth._base.programs import memory_maps, release_programs

on_linux = pytest.mark.skipif(memory_maps() is None, reason="only Linux tells the memory maps of a process")


def _compile(programs: int) -> None:
    for size in range(1, programs + 1):
        jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.ones((size, 3))).block_until_ready()


@on_linux
def test_programs_take_memory_maps_and_give_them_back():
    _compile(1)  # the threads of the compiler stay
    release_programs(share=0.0)
    before = memory_maps()
    _compile(30)
    crowded = memory_maps()
    assert crowded >= before + 30
    assert release_programs(share=0.0)
    assert memory_maps() <= before + 15


_MEMORY = """
import jax, jax.numpy as jnp
from finitewidth._base.programs import release_programs, resident_bytes

def compile(programs):
    for size in range(1, programs + 1):
        jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.ones((size, 3))).block_until_ready()

compile(1)
release_programs(share=0.0)
before = resident_bytes()
compile(60)
crowded = resident_bytes()
kept = release_programs(share=1.0, most_bytes=crowded + 30e6)
released = release_programs(share=1.0, most_bytes=crowded - 30e6)
print(kept, released, before, crowded, resident_bytes())
"""


@on_linux
def test_programs_give_their_memory_back():
    """In a process of its own, which has no other memory to give back or to fill."""
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True)
    kept, released, *sizes = done.stdout.split()
    before, crowded, after = map(int, sizes)
    assert crowded >= before + 30e6
    assert (kept, released) == ("False", "True")
    assert after <= (before + crowded) / 2


@on_linux
def test_few_programs_are_kept():
    traces = []

    @jax.jit
    def traced(x):
        traces.append(x.shape)
        return 2 * x

    traced(jnp.ones(3))
    assert not release_programs(share=1.0)
    traced(jnp.ones(3))
    assert len(traces) == 1
    release_programs(share=0.0)
    traced(jnp.ones(3))
    assert len(traces) == 2


_JOB = """
import sys
from finitewidth._base.programs import keep_programs

print(keep_programs(lambda sentence: print("said:", sentence), int(sys.argv[1])))
import jax
import jax.monitoring

events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rsplit("/", 1)[-1]))
print(float(jax.jit(lambda x: 3 * x + 1)(2.0)))
print("hits", events.count("cache_hits"), "misses", events.count("cache_misses"))
"""


@pytest.fixture
def job(tmp_path):
    """Compile one program in a process of its own, with the user's cache directory at `tmp_path`."""

    def run(most_bytes: int = 10**9, **environment: str) -> list[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        done = subprocess.run(
            [sys.executable, "-c", _JOB, str(most_bytes)],
            env=inherited | {"XDG_CACHE_HOME": str(tmp_path)} | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def test_a_second_process_compiles_nothing(job, tmp_path):
    directory, first, counts = job()
    assert directory.startswith(str(tmp_path / "finitewidth" / "programs-"))
    assert (first, counts) == ("7.0", "hits 0 misses 1")
    assert job() == [directory, "7.0", "hits 1 misses 0"]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[::-1]])
def test_damaged_programs_are_deleted_with_one_sentence(job, tmp_path, damage):
    directory = job()[0]
    (entry,) = (tmp_path / "finitewidth").glob("*/*-cache")
    entry.write_bytes(damage(entry.read_bytes()))
    assert job()[1:3] == [
        f"said: damaged programs in {directory} were deleted; they are compiled again.",
        "7.0",
    ]
    assert job()[-1] == "hits 1 misses 0"


def test_a_file_in_the_place_of_the_directory_is_said_once_and_ignored(job, tmp_path):
    (tmp_path / "finitewidth").touch()
    said, directory, value, _ = job()
    assert said.startswith(f"said: compiled programs cannot be kept in {tmp_path}")
    assert (directory, value) == ("None", "7.0")


def test_the_users_own_directory_is_respected(job, tmp_path):
    assert job(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"))[0] == "None"
    assert not (tmp_path / "finitewidth").exists()


def test_programs_not_used_for_longest_are_deleted(job, tmp_path):
    directory = Path(job()[0])
    for path in directory.iterdir():
        path.unlink()
    for age in range(10):
        path = directory / f"{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    names = lambda: {path.name for path in directory.iterdir() if len(path.name) < 9}
    job(most_bytes=1000)
    assert len(names()) == 10
    job(most_bytes=1000)  # the program of the first job has come on top
    assert names() < {f"{age}-cache" for age in range(5)}
