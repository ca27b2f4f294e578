"""Turns citations, [@jacot-2018], into links to the bibliography, and lists there who cites what."""

import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError

BIBLIOGRAPHY = "bibliography.md"
_CITATION = re.compile(r"\[@([^\]]+)\]")
_ENTRY = re.compile(
    r'^- <span id="(?P<key>[^"]+)"></span>(?P<authors>[^*]+?),? \*[^*]+\* \((?P<year>\d{4})\).*$', re.M
)


def on_page_markdown(markdown, page, config, files):
    """A key that the bibliography lacks stops the build."""
    place = page.file.src_uri
    if place == BIBLIOGRAPHY:
        return _with_readers(markdown, files)
    if not _CITATION.search(markdown):
        return markdown
    known = labels((Path(config.docs_dir) / BIBLIOGRAPHY).read_text(encoding="utf-8"))
    home = posixpath.relpath(BIBLIOGRAPHY, posixpath.dirname(place) or ".")

    def link(match: re.Match) -> str:
        if match[1] not in known:
            raise PluginError(f"{place}: the bibliography has no entry {match[1]!r}.")
        return f"[{known[match[1]]}]({home}#{match[1]})"

    return _CITATION.sub(link, markdown)


def labels(bibliography: str) -> dict[str, str]:
    """What stands in the text for every key: one or two names, or the first of several, and the year."""
    return {
        entry["key"]: f"{_names(entry['authors'])} {entry['year']}" for entry in _ENTRY.finditer(bibliography)
    }


def _names(authors: str) -> str:
    first, *others = [author.split()[-1] for author in re.split(r", | and ", authors)]
    return f"{first} et al." if len(others) > 1 or others == ["others"] else " and ".join([first, *others])


def _with_readers(bibliography: str, files) -> str:
    """The bibliography with the pages that cite each entry."""
    readers: dict[str, list[str]] = {}
    for file in files.documentation_pages():
        text = file.content_string
        for key in dict.fromkeys(_CITATION.findall(text)):
            title = re.search(r"^# (.+)$", text, re.M)[1]
            readers.setdefault(key, []).append(f"[{title}]({file.src_uri})")

    def entry(match: re.Match) -> str:
        cited = readers.get(match["key"])
        return match[0] + (f" *Cited in* {', '.join(cited)}." if cited else "")

    return _ENTRY.sub(entry, bibliography)
