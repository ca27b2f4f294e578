"""Moments of trained networks of finite width, measured with little noise."""
