"""Claims of widths and learning rates: each one theory beside measurement."""
