"""The law of the trained outputs: mean, covariance, corrections, and how far to trust them."""
