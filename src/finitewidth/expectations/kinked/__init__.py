"""Averages of activations with kinks, exact on their cones and polygons."""
