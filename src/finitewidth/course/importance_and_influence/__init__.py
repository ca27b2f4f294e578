"""Importance and influence."""
