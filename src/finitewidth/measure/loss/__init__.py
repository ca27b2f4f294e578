"""The loss around a network: curvature, sharpness, margins, classes, influence, gradient noise."""
