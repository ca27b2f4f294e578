"""Reproducing kernels and ridge regression."""
