"""Network, data and outputs of one prediction, with the kernels that it computes once."""
