"""Optimiser geometry."""
