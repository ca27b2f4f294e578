"""A long-lived process lets go of the programs it has compiled."""

import jax
import jax.numpy as jnp
import pytest

from finitewidth.scale.programs import memory_maps, release_programs

pytestmark = pytest.mark.skipif(memory_maps() is None, reason="only Linux tells the memory maps of a process")


def _compile(programs: int) -> None:
    for size in range(1, programs + 1):
        jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.ones((size, 3))).block_until_ready()


def test_programs_take_memory_maps_and_give_them_back():
    release_programs(share=0.0)
    before = memory_maps()
    _compile(30)
    crowded = memory_maps()
    assert crowded >= before + 30
    assert release_programs(share=0.0)
    assert memory_maps() <= before + 15


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
