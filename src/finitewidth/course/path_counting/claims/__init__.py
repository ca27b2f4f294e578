"""Claims of path counting: each one theory beside measurement."""
