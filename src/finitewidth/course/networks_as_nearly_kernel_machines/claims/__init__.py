"""Claims of networks as nearly kernel machines: each one theory beside measurement."""
