"""Large learning rates."""
