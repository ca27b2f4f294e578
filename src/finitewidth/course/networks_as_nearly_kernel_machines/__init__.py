"""Networks as models quadratic and cubic in their weights."""
