"""Ways to compute the law: infinite width, Bayesian, first order, kinks, mean field, beyond memory."""
