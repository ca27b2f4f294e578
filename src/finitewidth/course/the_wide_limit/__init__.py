"""The wide limit."""
