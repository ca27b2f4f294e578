"""Claims of kernel regression: each one theory beside measurement."""
