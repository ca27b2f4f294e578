"""Turns links to claims, [words](claim:ID), into links to their place in the ledger."""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError

_LINK = re.compile(r"\]\(claim:([^)]*)\)")


def on_page_markdown(markdown, page, config, files):
    """A claim that is not in the ledger stops the build."""
    if not _LINK.search(markdown):
        return markdown
    places = json.loads((Path(config.docs_dir) / "ledger" / "claims.json").read_text(encoding="utf-8"))
    folder = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match) -> str:
        if match[1] not in places:
            raise PluginError(f"{page.file.src_uri}: no claim is called {match[1]!r}.")
        return f"]({posixpath.relpath(places[match[1]], folder or '.')})"

    return _LINK.sub(link, markdown)
