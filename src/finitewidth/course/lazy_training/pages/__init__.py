"""What the browser shows of lazy training."""
