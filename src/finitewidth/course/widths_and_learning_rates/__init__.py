"""How gradients, learning rates and movements scale with width."""
