"""Stochastic gradients."""
