"""Fluctuations of kernels in 1/width: tensors, mean shifts and their growth with depth."""
