"""Claims of the wide limit: each one theory beside measurement."""
