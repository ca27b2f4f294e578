"""The law of trained networks at infinite width, and the posterior of Bayesian ones."""
