"""Claims of entropy and widths: each one theory beside measurement."""
