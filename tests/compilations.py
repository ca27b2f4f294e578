"""Which programs JAX compiles while something runs."""

import contextlib
from collections.abc import Iterator

import jax
import pytest


@contextlib.contextmanager
def count_compilations() -> Iterator[list[str]]:
    """What JAX says about the programs that it compiles in this block, one sentence for each."""
    found: list[str] = []

    def listen(logger, message, *rest) -> None:
        if message.startswith("Compiling "):
            found.append(message % rest if rest else message)

    with jax.log_compiles(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("logging.Logger.warning", listen)
        patch.setattr(
            "logging.Logger.log", lambda logger, level, message, *rest: listen(logger, message, *rest)
        )
        yield found
