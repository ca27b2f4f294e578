"""Regions on which ReLU networks are affine: how many there can be, and how many there are."""
