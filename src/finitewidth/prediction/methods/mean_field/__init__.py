"""Whole neurons in the field of the trained network, for one hidden layer held to its start by a ridge."""
