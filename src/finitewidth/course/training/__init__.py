"""One step of training a network."""
