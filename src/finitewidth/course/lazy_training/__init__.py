"""Lazy training."""
