"""How variances, correlations and gradients behave with depth: criticality and phases."""
