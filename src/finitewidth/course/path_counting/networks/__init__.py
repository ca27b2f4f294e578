"""Random ReLU layers whose paths are summed."""
