"""Criticality."""
