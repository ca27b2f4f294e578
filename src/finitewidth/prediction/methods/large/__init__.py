"""Predictions from more rows than fit into memory as matrices."""
