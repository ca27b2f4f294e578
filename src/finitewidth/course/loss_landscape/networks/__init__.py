"""Classifiers trained until their loss landscape has its late shape."""
