"""Claims of trained networks: each one theory beside measurement."""
