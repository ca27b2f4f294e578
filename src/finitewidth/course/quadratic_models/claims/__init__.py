"""Claims of quadratic models: each one theory beside measurement."""
