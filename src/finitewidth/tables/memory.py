"""How many rows fit into the memory of this machine."""

import os

# Twelve matrices of all pairs of rows in double precision, a cautious count of kernels, factors, inverses,
# eigenvectors and covariances that live at the same time.
_BYTES_OF_A_PAIR = 96
_SHARE = 0.5


def rows_in_memory() -> int:
    """Rows, for training and test together, whose prediction takes half of the machine's memory."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int((_SHARE * total / _BYTES_OF_A_PAIR) ** 0.5)
