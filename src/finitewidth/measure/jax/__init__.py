"""Readers of networks written in JAX."""
