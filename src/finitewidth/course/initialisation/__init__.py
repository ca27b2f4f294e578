"""Initialisation."""
