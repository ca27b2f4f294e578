"""Reports about visitors' tables: kept for ten minutes under names that nobody can guess."""

import collections
import secrets
import time

SECONDS = 600.0
MOST = 16


class Reports:
    """At most `MOST` pages, the oldest goes first."""

    def __init__(self, seconds: float | int = SECONDS):
        self.seconds = seconds
        self.kept: collections.OrderedDict[str, tuple[float, str]] = collections.OrderedDict()

    def add(self, page: str) -> str:
        """Keep a page; the path under which it can be opened."""
        self._forget()
        name = secrets.token_urlsafe(24)
        self.kept[name] = (time.monotonic() + self.seconds, page)
        while len(self.kept) > MOST:
            self.kept.popitem(last=False)
        return f"/report/{name}"

    def find(self, name: str) -> str | None:
        """The page, or None if there is none or it is too old."""
        self._forget()
        return self.kept[name][1] if name in self.kept else None

    def _forget(self) -> None:
        now = time.monotonic()
        for name in [name for name, (end, _) in self.kept.items() if end < now]:
            del self.kept[name]
