"""Tangent kernel."""
