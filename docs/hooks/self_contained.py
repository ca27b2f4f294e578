"""Keeps the book free of outside addresses: a page must show completely without a network."""

import re

_LOADED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]+)"')


def on_post_page(output: str, page, **_) -> str:
    """Stop the build when a page would load something from elsewhere. Links to click are fine."""
    outside = sorted(set(_LOADED.findall(output)))
    if outside:
        raise ValueError(f"{page.file.src_path} loads {', '.join(outside)}.")
    return output
