"""Two-layer networks in the mean-field scaling."""
