"""Claims of stochastic gradients: each one theory beside measurement."""
