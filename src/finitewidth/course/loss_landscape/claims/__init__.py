"""Claims of loss landscape: each one theory beside measurement."""
