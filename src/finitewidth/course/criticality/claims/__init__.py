"""Claims of criticality: each one theory beside measurement."""
