"""The posterior instead of training: at infinite width, with random scales, and of deep linear networks."""
