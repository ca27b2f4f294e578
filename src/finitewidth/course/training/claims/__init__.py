"""Claims of training: each one theory beside measurement."""
