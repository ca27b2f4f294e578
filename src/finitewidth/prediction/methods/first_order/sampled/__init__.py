"""The first correction in 1/width by sampled neurons, for hundreds of points."""
