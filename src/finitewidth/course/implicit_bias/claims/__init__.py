"""Claims of implicit bias: each one theory beside measurement."""
