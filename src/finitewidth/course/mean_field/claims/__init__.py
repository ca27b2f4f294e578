"""Claims of mean field: each one theory beside measurement."""
