"""Bayesian."""
