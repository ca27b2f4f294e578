"""Linear regions."""
