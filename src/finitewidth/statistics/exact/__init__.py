"""Exact laws at every width: deep linear networks and sums over paths."""
