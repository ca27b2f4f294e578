"""Representation learning."""
