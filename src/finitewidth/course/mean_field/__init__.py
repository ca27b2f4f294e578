"""Mean field."""
