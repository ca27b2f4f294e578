"""Kernel shifts, single-input NTKs and tensors of random networks of finite width."""
