"""Claims of large learning rates: each one theory beside measurement."""
