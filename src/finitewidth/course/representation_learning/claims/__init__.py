"""Claims of representation learning: each one theory beside measurement."""
