"""The description for package indexes: README.md without pictures and links into the repository."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_RELATIVE = r"\((?!https?://|mailto:)[^)\s]+\)"
_PICTURE = re.compile(rf"!\[([^\]]*)\]{_RELATIVE}")
_LINK = re.compile(rf"\[([^\]]+)\]{_RELATIVE}")


class LongDescription(MetadataHookInterface):
    """Sets the dynamic field `readme`."""

    def update(self, metadata: dict) -> None:
        """Called by hatchling for every wheel and source archive."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_targets(text)}


def without_relative_targets(text: str) -> str:
    """Pictures become their descriptions and links their words; code stays as it is."""
    parts = _CODE.split(text)
    parts[::2] = [_plain(prose) for prose in parts[::2]]
    return "".join(parts)


def _plain(prose: str) -> str:
    return _LINK.sub(r"\1", _PICTURE.sub(r"*(Picture in the repository: \1.)*", prose))
