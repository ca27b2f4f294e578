"""Programs of the tests are compiled quickly rather than well, except where they run for long."""

import contextlib

import jax


@contextlib.contextmanager
def optimisation():
    """Optimise the programs compiled inside: worth it where they run for longer than they take to compile."""
    setting = "jax_disable_most_optimizations"
    usual = jax.config.read(setting)
    jax.config.update(setting, False)
    try:
        yield
    finally:
        jax.config.update(setting, usual)
