"""First order."""
