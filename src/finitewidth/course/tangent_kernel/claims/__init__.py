"""Claims of tangent kernel: each one theory beside measurement."""
