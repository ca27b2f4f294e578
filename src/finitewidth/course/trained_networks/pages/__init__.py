"""What the browser shows of trained networks."""
