"""Placeholder until the merge."""
Corrections = object
