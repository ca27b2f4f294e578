"""Claims of architectures: each one theory beside measurement."""
