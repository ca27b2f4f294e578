"""Stochastic gradient descent: its steady state, its drift to flat regions, and schedules for its steps."""
