"""Problem."""
