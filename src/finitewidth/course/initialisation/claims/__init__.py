"""Claims of initialisation: each one theory beside measurement."""
