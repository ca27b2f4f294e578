"""Claims of depth: each one theory beside measurement."""
