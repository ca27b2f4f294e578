"""Trained quadratic models from kernels and meta kernels, without features or weights."""
