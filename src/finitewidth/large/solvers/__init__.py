"""Solvers of kernel systems larger than memory: packed storage, preconditioned iterations, tiled Cholesky."""
