"""Tangent."""
