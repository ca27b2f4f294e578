"""Entropy and widths."""
