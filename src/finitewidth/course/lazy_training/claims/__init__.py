"""Claims of lazy training: each one theory beside measurement."""
