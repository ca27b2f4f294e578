"""Claims of linear regions: each one theory beside measurement."""
