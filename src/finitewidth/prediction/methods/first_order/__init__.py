"""Corrections to the law of trained networks at finite width."""
