"""Curvature of the loss, the classes in it, and what late training does to features."""
