r"""Trained networks whose activation has kinks: the law of order $n^{-1/2}$."""
