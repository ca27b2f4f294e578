"""Kernels of infinitely wide networks, layer by layer."""
