"""Nearly kernel methods."""
