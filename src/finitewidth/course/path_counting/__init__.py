"""Random ReLU networks as sums over paths, exact at every width."""
