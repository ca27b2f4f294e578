"""Stochastic gradients: steady states, drifts to flat regions, noise that depends on the place, schedules."""
