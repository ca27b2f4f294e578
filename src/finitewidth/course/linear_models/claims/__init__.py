"""Claims of linear models: each one theory beside measurement."""
