"""The first correction in 1/width from dense tensors, for a handful of points."""
