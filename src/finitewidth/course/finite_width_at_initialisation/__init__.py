"""Finite width at initialisation."""
