"""Claims of deep linear networks: each one theory beside measurement."""
