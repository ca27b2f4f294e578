"""The tangent kernel of one hidden layer."""
