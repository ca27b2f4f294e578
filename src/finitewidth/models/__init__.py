"""Models as functions of their weights: what is trained, before any theory of the training."""
