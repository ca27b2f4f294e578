"""What the browser shows of large learning rates."""
