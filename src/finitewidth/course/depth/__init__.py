"""Variances and angles in deep networks."""
