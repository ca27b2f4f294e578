"""Features that move in training, and what they are good for."""
