"""Importance weights and influence functions: where they work on networks and where they fail."""
