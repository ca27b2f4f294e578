"""p(f*): the distribution of trained networks."""
