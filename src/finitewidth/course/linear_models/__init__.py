"""Gradient descent on linear models."""
