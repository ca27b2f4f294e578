"""Outputs of random networks of any width."""
