"""Claims of optimiser geometry: each one theory beside measurement."""
