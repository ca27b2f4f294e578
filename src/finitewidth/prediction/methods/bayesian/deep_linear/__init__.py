"""Bayesian inference with deep linear networks, exact at finite width and depth."""
