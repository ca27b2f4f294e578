"""How many rows, cells and bytes fit into the memory of this machine."""

import os

# Twelve matrices of all pairs of rows in double precision, a cautious count of kernels, factors, inverses,
# eigenvectors and covariances that live at the same time.
_BYTES_OF_A_PAIR = 96
_SHARE = 0.5
# A cell of a file as text, as a number, and what reading it takes in between; a byte of text likewise.
_BYTES_OF_A_CELL, _BYTES_OF_A_BYTE, _SHARE_OF_A_TABLE = 100, 4, 0.25
_MOST_CELLS, _MOST_BYTES = 60_000_000, 2_000_000_000


def rows_in_memory() -> int:
    """Rows, for training and test together, whose prediction takes half of the machine's memory."""
    return int((_SHARE * _memory() / _BYTES_OF_A_PAIR) ** 0.5)


def most_cells() -> int:
    """Cells, rows times columns, that a table may have."""
    return min(_MOST_CELLS, int(_SHARE_OF_A_TABLE * _memory() / _BYTES_OF_A_CELL))


def most_bytes() -> int:
    """Bytes that a file of data may have when it is unpacked."""
    return min(_MOST_BYTES, int(_SHARE_OF_A_TABLE * _memory() / _BYTES_OF_A_BYTE))


def refuse_many_cells(name: object, rows: int, columns: int) -> None:
    """Refuse a table that is too large to be read."""
    if rows * columns > most_cells():
        found = f"{rows:,} rows or more in {columns:,} columns" if columns > 1 else f"{rows:,} cells or more"
        raise ValueError(
            f"{name} has {found}; a table may have {most_cells():,} cells here: give fewer rows or columns."
        )


def refuse_many_bytes(name: object, count: int) -> None:
    """Refuse a file that unpacks to more than can be read."""
    if count > most_bytes():
        raise ValueError(
            f"{name} holds more than {most_bytes() / 1e6:,.0f} MB when it is unpacked, too much for a table "
            "here: give fewer rows or columns."
        )


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
