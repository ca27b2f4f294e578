"""The pages of the lab, in the order of the course: one module of a topic each, with its `PAGE`."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from finitewidth.course._server.page import Page


def _found() -> Iterator[Page]:
    for file in Path(__file__).parents[1].glob("*/pages/*.py"):
        if file.stem != "__init__":
            yield importlib.import_module(f"finitewidth.course.{file.parts[-3]}.pages.{file.stem}").PAGE


PAGES = {page.slug: page for page in sorted(_found(), key=lambda page: page.order)}
