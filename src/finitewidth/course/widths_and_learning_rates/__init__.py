"""Widths and learning rates."""
