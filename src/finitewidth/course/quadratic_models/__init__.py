"""Training of models quadratic in their weights."""
