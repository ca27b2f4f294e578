"""Corrections in 1/width to trained networks."""
