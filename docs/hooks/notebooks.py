"""Turns the tutorials, percent scripts in docs/tutorials, into pages of the book and notebooks to download.

A markdown cell that holds nothing but a text block or a picture is what the code cell above it puts out. On
the page it stands below the code; in the notebook it is that cell's output. The tests run the code.
"""

import base64
import re
from pathlib import Path

import jupytext
import nbformat
from mkdocs.structure.files import File
from nbformat import NotebookNode
from nbformat.v4 import new_output

_TEXT = re.compile(r"```text\n(.*\n)```", re.DOTALL)
_PICTURE = re.compile(r"\[?!\[[^]]*\]\(([^)]+\.png)\)(?:\]\([^)]*\))?")


def on_files(files, config):
    """Add a page and a notebook for every tutorial."""
    for script in sorted((Path(config.docs_dir) / "tutorials").glob("*.py")):
        for suffix, content in ((".md", page(script)), (".ipynb", notebook(script))):
            files.append(File.generated(config, f"tutorials/{script.stem}{suffix}", content=content))
    return files


def page(script: Path) -> str:
    """The tutorial in Markdown, with a link to its notebook below the title."""
    parts = [
        f"```python\n{cell.source}\n```" if cell.cell_type == "code" else cell.source
        for cell in cells(script)
    ]
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n[Download this page as a notebook]({script.stem}.ipynb){{ download }}\n{rest}\n"


def notebook(script: Path) -> str:
    """The tutorial as a notebook whose code cells carry their outputs."""
    found = nbformat.v4.new_notebook(metadata={"kernelspec": _KERNEL, "language_info": {"name": "python"}})
    for number, cell in enumerate(cells(script)):
        output = _output(cell, script.parent)
        if output is None:
            cell.id = f"cell-{number}"
            cell.metadata = NotebookNode()
            found.cells.append(cell)
        else:
            found.cells[-1].outputs.append(output)
    nbformat.validate(found)
    return nbformat.writes(found)


def cells(script: Path) -> list[NotebookNode]:
    """The cells of a percent script."""
    return jupytext.reads(script.read_text(encoding="utf-8"), fmt="py:percent").cells


_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def _output(cell: NotebookNode, folder: Path) -> NotebookNode | None:
    """What a markdown cell says the code above it puts out; None for a cell of another kind."""
    if cell.cell_type == "code":
        return None
    if printed := _TEXT.fullmatch(cell.source):
        return new_output("stream", name="stdout", text=printed[1])
    if picture := _PICTURE.fullmatch(cell.source):
        data = base64.b64encode((folder / picture[1]).read_bytes()).decode()
        return new_output("display_data", data={"image/png": data})
    return None
