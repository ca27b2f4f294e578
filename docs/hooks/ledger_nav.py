"""Puts the generated pages of the ledger, one per chapter, into the navigation."""

import json
from pathlib import Path


def on_config(config):
    """Replace the ledger's single entry by its overview and its chapters."""
    folder = Path(config.docs_dir) / "ledger"
    chapters = json.loads((folder / "chapters.json").read_text(encoding="utf-8"))
    for entry in config.nav:
        if "Ledger of claims" in entry:
            entry["Ledger of claims"] = ["ledger/index.md", *chapters]
    return config
