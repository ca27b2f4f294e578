"""Trained networks."""
