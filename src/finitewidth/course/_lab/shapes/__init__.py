"""Claims of one shape: the same kind of prediction, measurement, comparison and picture."""
