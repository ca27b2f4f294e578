"""Theory."""
