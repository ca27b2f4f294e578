"""Corrections in 1/width to random networks."""
