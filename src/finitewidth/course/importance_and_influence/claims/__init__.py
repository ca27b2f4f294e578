"""Claims of importance and influence: each one theory beside measurement."""
