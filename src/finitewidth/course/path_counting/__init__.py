"""Path counting."""
