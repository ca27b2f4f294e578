"""Measurements on random networks and by direct integration; nothing here knows the theory."""
