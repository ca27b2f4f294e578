"""Finite width after training."""
