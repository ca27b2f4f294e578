"""Residual, normalised, convolutional and attention networks."""
