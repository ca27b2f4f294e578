"""Kinked."""
