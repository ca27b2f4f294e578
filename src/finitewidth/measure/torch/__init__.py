"""Readers of networks written in PyTorch."""
