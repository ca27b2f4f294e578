"""Quadratic models."""
